package dataplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Names are sums of ids. Interface names are at most 15 bytes, so a GUID does not fit.

// BridgeName is the name of the link that is the switch of a network.
func BridgeName(network string) string { return bridgeName(network) }

// ours reports whether a link of that name was made by a data plane.
func ours(link string) bool { return strings.HasPrefix(link, "hns") }

func bridgeName(network string) string { return "hnsb" + shortSum(network, 10) }
func portName(endpoint string) string  { return "hnsv" + shortSum(endpoint, 10) }

func tunnelName(network string, vsid uint32) string {
	return "hnsx" + shortSum(fmt.Sprintf("%s/%d", network, vsid), 10)
}

// OwnNetns is the name of the network namespace that the data plane makes for an HCN namespace without a path.
func OwnNetns(namespace string) string { return "hns-" + namespace }

func derivedMAC(id string) string {
	h := shortSum(id, 10)
	return fmt.Sprintf("02:%s:%s:%s:%s:%s", h[0:2], h[2:4], h[4:6], h[6:8], h[8:10])
}

func shortSum(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:n]
}
