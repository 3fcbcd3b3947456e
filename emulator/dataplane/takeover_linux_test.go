package dataplane

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/emulator/desired"
)

// While a network card is away the rules go on with its addresses, and it gets back what it should.
func TestTakeDown(t *testing.T) {
	for _, loses := range []bool{false, true} {
		w := newWorld(t)
		pod := w.a.pod(11)
		w.a.apply()
		w.serve("out", "out", 80)
		before := w.hostStack("a")
		add := func(dst string, protocol int) {
			w.in("a", func() error {
				return netlink.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix(dst)), Gw: net.ParseIP("10.99.0.9"), Protocol: netlink.RouteProtocol(protocol)})
			})
		}
		add("192.168.1.0/24", hostRouteProtocol) // a program's
		if loses {
			w.in("a", func() error { return netlink.RouteDel(&netlink.Route{Dst: netOf(w.b.pods)}) })
			before = "10.99.0.21/24 on eth0\n0.0.0.0/0 via 10.99.0.1 on eth0 metric 0\n10.99.0.0/24 via <nil> on eth0 metric 0\n"
			add("192.168.2.0/24", 3) // the administrator's
		}

		link, err := w.a.dp.handle.LinkByName("eth0")
		must(t, err)
		var saved CardStack
		_, err = w.a.dp.TakeDown(link.Attrs().Index, loses, func(s CardStack) error { saved = s; return nil })
		must(t, err)
		if have := w.hostStack("a"); have != "" {
			t.Errorf("while the card is away: %s", have)
		}
		w.expect("out", "10.99.0.21:80", "timeout")
		w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("web", "10.96.0.1", 80, 80, true, w.a.epID(11))}
		w.a.carry() // no rule changes because the address is away

		must(t, w.a.dp.PutBack(saved))
		must(t, w.a.dp.PutBack(saved))
		if have := w.hostStack("a"); have != before {
			t.Errorf("loses persistent routes %v: the host has\n%swant\n%s", loses, have, before)
		}
		w.a.carry()
		w.expect(pod, outside+":80", "out 10.99.0.21")
	}
}
