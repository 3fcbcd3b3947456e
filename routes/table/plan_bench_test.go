package table

import (
	"fmt"
	"net/netip"
	"testing"
)

// BenchmarkPlan is a pass of a node of a large cluster that changes nothing.
func BenchmarkPlan(b *testing.B) {
	nodes := make([]Node, 5000)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("node-%04d", i), Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
			PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + i>>8), byte(i), 0}), 24)}}
	}
	claims := Claims{Self: nodes[0].Name, Cluster: Cluster{Pods: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10")}}}
	var listed []Route
	for _, w := range Peers(nodes, claims) {
		listed = append(listed, Route{Dst: w.Dst, NextHop: w.NextHop, Ours: true})
	}

	for b.Loop() {
		if p := Diff(Peers(nodes, claims), listed); len(p.Ops) > 0 || len(p.Wanted) != len(nodes)-1 {
			b.Fatal(len(p.Wanted), p.Ops)
		}
	}
}
