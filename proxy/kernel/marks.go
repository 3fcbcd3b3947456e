package kernel

import (
	"crypto/sha256"
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
)

func markedID(mark, what string) string {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(what)))
	return mark + sum[:3] + "-8" + sum[3:6] + "-" + sum[6:18]
}

func lbID(key service.Key) hns.LoadBalancerID {
	return hns.LoadBalancerID(markedID(lbMark, key.String()))
}

func endpointID(network hns.NetworkID, addr netip.Addr) hns.EndpointID {
	return hns.EndpointID(markedID(endpointMark, string(network)+" "+addr.String()))
}

func ownsLB(id hns.LoadBalancerID) bool { return strings.HasPrefix(string(id), lbMark) }

func ownsEndpoint(e hns.Endpoint) bool {
	return e.Remote && (strings.HasPrefix(string(e.ID), endpointMark) || strings.HasPrefix(e.Name, namePrefix))
}

// remoteMAC is the address by which L2Bridge reaches something behind a router: any locally administered one that is
// unique per address will do; this is the form that upstream's proxy uses.
func remoteMAC(addr netip.Addr) string {
	if addr.Is4() {
		b := addr.As4()
		return fmt.Sprintf("02-11-%02x-%02x-%02x-%02x", b[0], b[1], b[2], b[3])
	}
	b := addr.As16()
	return fmt.Sprintf("02-11-%02x-%02x-%02x-%02x", b[12], b[13], b[14], b[15])
}
