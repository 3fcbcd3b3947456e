package ovnet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// SwitchName is the name of the node's logical switch. It is in lower case: names with capitals broke the programs of
// 2018.
func SwitchName(node string) string { return strings.ToLower(node) }

// RouterAddr is the address of the router on the node's switch, the gateway of its pods: the first of the range.
func RouterAddr(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next() }

// NodeAddr is the address of the node on its own switch: the second of the range.
func NodeAddr(subnet netip.Prefix) netip.Addr { return RouterAddr(subnet).Next() }

// MACOf returns the hardware address that belongs to an address: locally administered, the same on every node and
// after a restart.
func MACOf(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// NodePort and PodPort are the names of logical ports: what iface-id is on the node.
func NodePort(node string) string           { return "k8s-" + SwitchName(node) }
func PodPort(namespace, name string) string { return namespace + "_" + name }

// The name of a pod's interface on the host is linkPrefix and the first linkHash bytes of a SHA-256 sum in
// hexadecimal. That makes 15 characters, the most that Linux accepts.
const (
	linkPrefix = "ovn"
	linkHash   = 6
)

// PodLink returns the name of a pod's interface on the host. container is the id of the sandbox, iface the interface's
// name in the pod.
func PodLink(container, iface string) string {
	sum := sha256.Sum256([]byte(container + "/" + iface))
	return linkPrefix + hex.EncodeToString(sum[:linkHash])
}

// IsPodLink reports whether a name has the form of those that PodLink returns: the prefix and 12 hexadecimal digits.
// It cannot know whether the interface was made by our plugin.
func IsPodLink(name string) bool {
	rest, ok := strings.CutPrefix(name, linkPrefix)
	hash, err := hex.DecodeString(rest)
	return ok && err == nil && len(hash) == linkHash
}

// Keys in external_ids of a pod's interface that the plugin writes and the agent reads.
const (
	SandboxKey = "sandbox"    // id of the sandbox's container
	AddressKey = "ip_address" // with the length of the prefix
	MTUKey     = "mtu"        // of the pod's interface, in bytes
)

// Address is what a pod's interface has.
type Address struct {
	IP  netip.Addr
	MAC string
}

// Annotation is the name of the annotation of a pod that tells its node what the pod's interface has.
const Annotation = "ovn"

// annotation is the value, an object of strings as the first programs wrote it.
type annotation struct {
	IP      string `json:"ip_address"` // with the length of the prefix
	MAC     string `json:"mac_address"`
	Gateway string `json:"gateway_ip"`
}

// AnnotationOf returns the annotation of a pod with that address on a node of that range.
func AnnotationOf(a Address, subnet netip.Prefix) string {
	// strings cannot fail
	data, _ := json.Marshal(annotation{netip.PrefixFrom(a.IP, subnet.Bits()).String(), a.MAC,
		RouterAddr(subnet).String()})
	return string(data)
}

// ParseAnnotation reads the annotation. The first writers left a backslash before each quote; that is accepted. Whoever
// makes a pod can write it: what does not follow from the address and the range is an error, and the controller writes
// it again.
func ParseAnnotation(text string) (a Address, subnet netip.Prefix, gateway netip.Addr, err error) {
	var v annotation
	if err = json.Unmarshal([]byte(text), &v); err != nil {
		if err = json.Unmarshal([]byte(strings.ReplaceAll(text, `\"`, `"`)), &v); err != nil {
			return a, subnet, gateway, fmt.Errorf("annotation %s: %w", Annotation, err)
		}
	}

	prefix, err := netip.ParsePrefix(v.IP)
	if err != nil {
		return a, subnet, gateway, fmt.Errorf("annotation %s: ip_address %q is not an address with a prefix length",
			Annotation, v.IP)
	}
	if gateway, err = netip.ParseAddr(v.Gateway); err != nil {
		return a, subnet, gateway, fmt.Errorf("annotation %s: gateway_ip %q is not an address", Annotation, v.Gateway)
	}
	if !prefix.Addr().Is4() {
		return a, subnet, gateway, fmt.Errorf("annotation %s: ip_address %q is not of IPv4", Annotation, v.IP)
	}

	a = Address{prefix.Addr(), strings.ToLower(strings.ReplaceAll(v.MAC, "-", ":"))}
	subnet = prefix.Masked()
	switch {
	case a.MAC != MACOf(a.IP):
		return Address{}, netip.Prefix{}, gateway,
			fmt.Errorf("annotation %s: mac_address %q does not belong to ip_address %q: it must be %s",
				Annotation, v.MAC, v.IP, MACOf(a.IP))
	case gateway != RouterAddr(subnet):
		return Address{}, netip.Prefix{}, gateway,
			fmt.Errorf("annotation %s: gateway_ip %q is not the first address of the range of ip_address %q",
				Annotation, v.Gateway, v.IP)
	}
	return a, subnet, gateway, nil
}
