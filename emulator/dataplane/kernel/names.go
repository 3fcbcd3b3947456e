package kernel

import (
	"fmt"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/table"
)

// Names are sums of ids. Interface names are at most MaxLinkName bytes, so a GUID does not fit.

// MaxLinkName is how long the name of a link can be on Linux (IFNAMSIZ, less the final zero).
const MaxLinkName = 15

// Ours reports whether a link of that name was made by a data plane.
func Ours(link string) bool { return strings.HasPrefix(link, "hns") }

// BridgeName is the name of the link that is the switch of a network.
func BridgeName(network string) string { return "hnsb" + table.Sum(network, 10) }

// PortName is the name of the host's end of an endpoint's port.
func PortName(endpoint string) string { return "hnsv" + table.Sum(endpoint, 10) }

// TunnelName is the name of the vxlan device of one VSID of a network.
func TunnelName(network string, vsid uint32) string {
	return "hnsx" + table.Sum(fmt.Sprintf("%s/%d", network, vsid), 10)
}

// OwnNetns is the name of the network namespace that the data plane makes for an HCN namespace without a path.
func OwnNetns(namespace string) string { return "hns-" + namespace }

// DerivedMAC is the MAC address of what has none of its own.
func DerivedMAC(id string) string {
	h := table.Sum(id, 10)
	return fmt.Sprintf("02:%s:%s:%s:%s:%s", h[0:2], h[2:4], h[4:6], h[6:8], h[8:10])
}
