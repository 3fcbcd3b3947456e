package killtest

import (
	"net/netip"
	"testing"

	"porthole.dev/porthole/internal/testkit/routers"
	"porthole.dev/porthole/routes/table"
)

const routerAddr = "10.0.0.1"

// TestBGP has routes that are wrong, doubled, missing and stale, beside BIRD.
func TestBGP(t *testing.T) {
	long(t)
	speaks(t, func() (netip.Addr, []table.Node, error) { return netip.MustParseAddr(routerAddr), cluster(), nil },
		func(t *testing.T, _ string) Host {
			s, segment := newSegment(t)
			segment.Address("lin01", routerAddr+"/24")
			told := map[string]string{}
			for _, n := range cluster()[1:] {
				told[n.PodCIDRs[0].String()] = n.Addr.String()
			}
			routers.BIRD(t, segment.Path, routers.Announces(routerAddr, self.String(), told))

			foreign := others[:2]
			return Host{Start: s.start, Tables: s.routes, Foreign: foreign,
				Before: func() error {
					return s.ip("-4 route flush proto static", "-4 route flush proto bird", "-4 route flush proto 201",
						"route add "+foreign[0], "route add "+foreign[1],
						"route add 10.244.2.0/24 via 10.0.0.13 proto 201",
						"route add 10.244.3.0/24 proto 201 nexthop via 10.0.0.13 nexthop via 10.0.0.12",
						"route add 10.244.9.0/24 via 10.0.0.14 proto 201")
				},
				Want: []string{
					"10.244.2.0/24 via 10.0.0.12 dev eth0 proto 201",
					"10.244.3.0/24 via 10.0.0.13 dev eth0 proto 201",
					"10.244.4.0/24 via 10.0.0.14 dev eth0 proto 201",
				}}
		})
}
