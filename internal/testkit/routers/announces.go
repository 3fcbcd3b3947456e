package routers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Announces returns the configuration of a BIRD with the address self that tells one neighbour, of its own AS 64512,
// these destinations with their next hops. It keeps no routes itself.
func Announces(self, neighbour string, nextHops map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router id %s;\nlog stderr all;\nprotocol device { }\nprotocol static { ipv4;\n", self)
	for _, dst := range slices.Sorted(maps.Keys(nextHops)) {
		fmt.Fprintf(&b, "route %s blackhole { bgp_next_hop = %s; };\n", dst, nextHops[dst])
	}
	fmt.Fprintf(&b,
		"}\nprotocol bgp { local %s as 64512; neighbor %s as 64512; connect delay time 1; connect retry time 1; error wait time 1, 1;\n"+
			"ipv4 { import all; export where source = RTS_STATIC; next hop keep; }; }\n", self, neighbour)
	return b.String()
}
