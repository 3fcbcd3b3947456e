package hns

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
)

// Outline returns a hash of what HNS's first interface (HNSCall) shows of a load balancer when it lists all of them:
// endpoints, source address, frontend addresses, ports and direct server return. Session affinity, IPv6 and port flags
// other than PortILB are not in that list. If the outline of a load balancer is the same as before, none of what is
// hashed has changed.
func (lb LoadBalancer) Outline() uint64 {
	h := fnv.New64a()
	text := func(s string) {
		_, _ = h.Write([]byte(s)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	number := func(n uint64) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, n)) }

	endpoints := slices.Clone(lb.Endpoints)
	slices.Sort(endpoints)
	for _, e := range endpoints {
		text(string(e))
	}

	vips := slices.SortedFunc(slices.Values(lb.VIPs), netip.Addr.Compare)
	for _, vip := range append(vips, lb.SourceVIP) {
		text(vip.String())
	}

	ports := make([]uint64, 0, len(lb.Ports))
	for _, p := range lb.Ports {
		ports = append(ports,
			uint64(p.Protocol)<<40|uint64(p.External)<<24|uint64(p.Internal)<<8|uint64(p.Flags&PortILB))
	}
	slices.Sort(ports)
	for _, p := range ports {
		number(p)
	}

	if lb.DSR {
		number(1)
	}
	return h.Sum64()
}
