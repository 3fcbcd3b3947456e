package hns

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
)

// Outline is a number for what HNS's first interface tells of a load balancer in its list of all (ELB policies): endpoints,
// source address, frontend addresses, ports and direct server return. It does not tell session affinity, IPv6, nor the
// port flags but PortILB. Equal outlines of one load balancer mean that nothing of that changed.
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
		ports = append(ports, uint64(p.Protocol)<<40|uint64(p.External)<<24|uint64(p.Internal)<<8|uint64(p.Flags&PortILB))
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
