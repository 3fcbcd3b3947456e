package balance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// HNS keeps the id that a document asks for (hcsshim relies on it in LoadBalancer.AddEndpoint). So our objects carry
// ids that mark them as ours, and creating the same thing twice fails instead of making a second one. The form is a
// version-8 GUID.
const (
	lbMark       = "706f7274-6c62-8" // "portlb"
	endpointMark = "706f7274-6570-8" // "portep"

	// namePrefix of remote endpoints, for people who list them, and for an HNS that would choose its own ids.
	namePrefix = "porthole-remote-"
	// sourceName is the local endpoint that holds the source address on an overlay network.
	sourceName = "porthole-source-vip"
)

// GUID is an object's id in 16 bytes: a node may have 100,000 endpoints. The zero value is no object's id.
type GUID [16]byte

// ParseGUID reads an id, with or without hyphens. It returns false if the text is not a GUID; HNS never answers such
// an id.
func ParseGUID[T ~string](id T) (GUID, bool) {
	var g GUID
	var digits [2 * len(g)]byte

	n := 0
	for i := range len(id) {
		if id[i] == '-' {
			continue
		}
		if n == len(digits) {
			return g, false
		}
		digits[n] = id[i]
		n++
	}

	_, err := hex.Decode(g[:], digits[:n])
	return g, err == nil && n == len(digits)
}

func (g GUID) String() string {
	text, start := make([]byte, 0, 36), 0
	for _, end := range [...]int{4, 6, 8, 10, 16} {
		if start > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, g[start:end])
		start = end
	}
	return string(text)
}

func markedID(mark, what string) string {
	raw := sha256.Sum256([]byte(what))
	sum := hex.EncodeToString(raw[:])
	return mark + sum[:3] + "-8" + sum[3:6] + "-" + sum[6:18]
}

// LoadBalancerID is the id of our load balancer for a frontend.
func LoadBalancerID(key service.Key) hns.LoadBalancerID {
	return hns.LoadBalancerID(markedID(lbMark, key.String()))
}

// EndpointID is the id of our endpoint for an address in a network.
func EndpointID(network hns.NetworkID, addr netip.Addr) hns.EndpointID {
	return hns.EndpointID(markedID(endpointMark, string(network)+" "+addr.String()))
}

// OwnsBalancer reports whether a load balancer of that id is ours.
func OwnsBalancer(id hns.LoadBalancerID) bool {
	g, ok := ParseGUID(id)
	return ok && ownsBalancer(g)
}

// ownsBalancer is OwnsBalancer of an id that was read.
func ownsBalancer(g GUID) bool { return string(g[:6]) == "portlb" && g[6]>>4 == 8 }

func ownsEndpoint(e hns.Endpoint) bool {
	return strings.HasPrefix(string(e.ID), endpointMark) || e.Remote && strings.HasPrefix(e.Name, namePrefix) ||
		e.Name == sourceName
}

// remoteMAC is the hardware address by which an L2Bridge network reaches something behind a router. Any locally
// administered address that is unique per IP address will do; this is the form that upstream's proxy uses.
func remoteMAC(addr netip.Addr) string {
	b := addr.AsSlice()
	b = b[len(b)-4:]
	return fmt.Sprintf("02-11-%02x-%02x-%02x-%02x", b[0], b[1], b[2], b[3])
}
