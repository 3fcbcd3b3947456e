package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// HNS keeps the id that a document asks for (hcsshim relies on it in LoadBalancer.AddEndpoint), so our objects carry ids
// that say whose they are, and the same thing made twice collides instead of doubling. The form is a version-8 GUID.
const (
	lbMark       = "706f7274-6c62-8"
	endpointMark = "706f7274-6570-8"
	// namePrefix of remote endpoints, for people who list them, and for an HNS that would choose its own ids.
	namePrefix = "porthole-remote-"
	// sourceName is the local endpoint that holds the source address on an overlay network.
	sourceName = "porthole-source-vip"
)

// guid is an object's id in 16 bytes: a node may have 100,000 endpoints.
type guid [16]byte

// guidOf reads an id; false when it is none, which HNS never answers.
func guidOf[T ~string](id T) (guid, bool) {
	var g guid
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

func (g guid) String() string {
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

func lbID(key service.Key) hns.LoadBalancerID {
	return hns.LoadBalancerID(markedID(lbMark, key.String()))
}

func endpointID(network hns.NetworkID, addr netip.Addr) hns.EndpointID {
	return hns.EndpointID(markedID(endpointMark, string(network)+" "+addr.String()))
}

func ownsLB(g guid) bool { return string(g[:6]) == "portlb" && g[6]>>4 == 8 }

func ownsEndpoint(e hns.Endpoint) bool {
	return strings.HasPrefix(string(e.ID), endpointMark) || e.Remote && strings.HasPrefix(e.Name, namePrefix) || e.Name == sourceName
}

// remoteMAC is the address by which L2Bridge reaches something behind a router: any locally administered one that is
// unique per address will do; this is the form that upstream's proxy uses.
func remoteMAC(addr netip.Addr) string {
	b := addr.AsSlice()
	b = b[len(b)-4:]
	return fmt.Sprintf("02-11-%02x-%02x-%02x-%02x", b[0], b[1], b[2], b[3])
}
