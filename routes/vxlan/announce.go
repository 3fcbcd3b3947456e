package vxlan

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// BackendType is this mode's name in flannel's annotations and configuration.
const BackendType = "vxlan"

// flannel's annotations on Nodes (pkg/subnet/kube/annotations.go, with its default prefix).
const (
	AnnotationPrefix            = "flannel.alpha.coreos.com/"
	AnnotationBackendType       = AnnotationPrefix + "backend-type"
	AnnotationBackendData       = AnnotationPrefix + "backend-data"
	AnnotationPublicIP          = AnnotationPrefix + "public-ip"
	AnnotationPublicIPOverwrite = AnnotationPrefix + "public-ip-overwrite" // the operator's choice of public-ip
	AnnotationSubnetManager     = AnnotationPrefix + "kube-subnet-manager" // flanneld ignores nodes without "true"
)

// MAC is an Ethernet address. The zero value means that it is not known.
type MAC [6]byte

// ParseMAC reads an address with colons, as Linux writes it, or with hyphens, as Windows does.
func ParseMAC(text string) (MAC, error) {
	var m MAC
	digits := strings.ReplaceAll(strings.ReplaceAll(text, "-", ""), ":", "")
	n, err := hex.Decode(m[:], []byte(shorten(digits, 2*len(m)+1)))
	if err != nil || n != len(m) || len(text) != 3*len(m)-1 {
		return MAC{}, fmt.Errorf("%q is not a MAC address like 0e:2a:0a:f4:01:00", text)
	}
	return m, nil
}

func shorten(s string, n int) string { return s[:min(n, len(s))] }

// String returns the address in lower case with colons, as flannel writes it.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Announcement is what a node tells the others in its annotations.
type Announcement struct {
	VNI    uint32
	MAC    MAC        // of its VXLAN device; on Windows the network's DrMacAddress. Zero: not known yet
	Public netip.Addr // where encapsulated packets go to. Invalid: not known yet
}

// backendData is the content of AnnotationBackendData.
type backendData struct {
	VNI     uint32
	VtepMAC string
}

// Annotations returns what the announcement writes on a Node, in the form that flannel writes. An announcement without
// MAC or address must not be written: peers with flanneld log an error for each.
func (a Announcement) Annotations() map[string]string {
	data, err := json.Marshal(backendData{VNI: a.VNI, VtepMAC: a.MAC.String()})
	if err != nil {
		panic(err) // a struct of a number and a string
	}
	return map[string]string{
		AnnotationBackendType: BackendType, AnnotationBackendData: string(data),
		AnnotationPublicIP: a.Public.String(), AnnotationSubnetManager: "true",
	}
}

// Unwritten returns those annotations of the announcement that a Node does not have, and nil if it has all. If the Node
// says with public-ip-overwrite which address others should use, that one is announced.
func (a Announcement) Unwritten(have map[string]string) map[string]string {
	if addr, err := netip.ParseAddr(have[AnnotationPublicIPOverwrite]); err == nil {
		a.Public = addr
	}
	missing := a.Annotations()
	maps.DeleteFunc(missing, func(key, value string) bool { return have[key] == value })
	if len(missing) == 0 {
		return nil
	}
	return missing
}

// Read reads what a node announces. Parts that are not there yet are zero, without an error: flannel on Windows writes
// an empty VtepMAC first. ok is false for a node that announces nothing. An error means that the node uses another
// backend, or that an annotation has no sense.
func Read(annotations map[string]string) (a Announcement, ok bool, err error) {
	kind, ok := annotations[AnnotationBackendType]
	if !ok {
		return a, false, nil
	}
	if kind != BackendType {
		return a, true, fmt.Errorf("announces flannel's backend %s", kind)
	}

	if a.Public, err = address(annotations[AnnotationPublicIP]); err != nil {
		return a, true, fmt.Errorf("has annotation %s: %w", AnnotationPublicIP, err)
	}
	text := annotations[AnnotationBackendData]
	if text == "" || text == "null" {
		return a, true, nil
	}
	var data backendData
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		return a, true, fmt.Errorf("has annotation %s %q: %w", AnnotationBackendData, text, err)
	}
	a.VNI = data.VNI
	if data.VtepMAC == "" {
		return a, true, nil
	}
	if a.MAC, err = ParseMAC(data.VtepMAC); err != nil {
		return a, true, fmt.Errorf("has annotation %s: VtepMAC %w", AnnotationBackendData, err)
	}
	return a, true, nil
}

// sortedPairs returns annotations as "key=value" without flannel's prefix, in order.
func sortedPairs(annotations map[string]string) []string {
	var list []string
	for key, value := range annotations {
		list = append(list, strings.TrimPrefix(key, AnnotationPrefix)+"="+value)
	}
	slices.Sort(list)
	return list
}

func address(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	return netip.ParseAddr(text)
}
