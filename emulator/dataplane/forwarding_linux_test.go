package dataplane

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/desired"
)

// A host drops packets in transit until forwarding is on, on both sides: that is a setting of each interface, and goes
// with it.
func TestForwarding(t *testing.T) {
	w := newWorld(t)
	p1, p2, far := w.a.pod(11), w.a.pod(12), w.b.pod(11)
	w.a.desired.LoadBalancers = append(w.a.desired.LoadBalancers, lb("near", "10.96.0.1", 80, 80, true, w.a.epID(12)),
		lb("far", "10.96.0.2", 80, 80, true, w.a.remote("10.244.2.11")))
	w.a.carry()
	w.b.apply()
	w.serve(p2, "p2", 80)
	w.serve(far, "far", 80)
	w.serve("out", "out", 80)
	w.serve("a", "a", 80)

	inside := func() {
		t.Helper()
		w.expect(p1, "10.244.1.12:80", "p2 10.244.1.11")
		w.expect(p1, "10.96.0.1:80", "p2 10.244.1.11")
		w.expect(p1, "10.99.0.21:80", "a 10.244.1.11")
	}
	beyond := func(want map[string]string) {
		t.Helper()
		for addr, answer := range want {
			w.expect(p1, addr+":80", answer)
		}
	}
	nothing := map[string]string{"10.244.2.11": "timeout", "10.96.0.2": "timeout", outside: "timeout",
		"10.99.0.1": "timeout"}
	all := map[string]string{"10.244.2.11": "far 10.244.1.11", "10.96.0.2": "far 10.244.1.11",
		outside: "out 10.99.0.21", "10.99.0.1": "out 10.244.1.11"}
	inside()
	beyond(nothing)
	w.expect("b", "10.244.1.12:80", "timeout")

	eth0, err := w.a.dp.handle.LinkByName("eth0")
	must(t, err)
	must(t, w.a.dp.SetForwarding(eth0.Attrs().Index, false, true))
	beyond(nothing) // their packets come in by the other one
	w.a.forward(true)
	w.a.forward(true) // again is no change
	inside()
	beyond(all)
	if s, err := w.a.dp.Interface(eth0.Attrs().Index, false); err != nil || !s.Forwarding || s.MTU != 1500 {
		t.Errorf("eth0 is %+v, %v", s, err)
	}
	if _, err := w.a.dp.Interface(9999, false); !errors.Is(err, hoststack.ErrNoInterface) {
		t.Errorf("an interface that does not exist: %v", err)
	}
	if err := w.a.dp.SetForwarding(9999, false, true); !errors.Is(err, hoststack.ErrNoInterface) {
		t.Errorf("setting one that does not exist: %v", err)
	}

	// A reboot of the host takes the settings away.
	if n, err := w.a.dp.ForgetForwarding(); err != nil || n != 4 {
		t.Errorf("forgot %d settings, %v", n, err)
	}
	beyond(nothing)
	w.a.forward(true)
	beyond(all)

	// A restart of HNS changes nothing; another adapter does.
	again, err := New(Options{Netns: w.path("a")})
	must(t, err)
	t.Cleanup(again.Close)
	beyond(all)
	bridge, err := w.a.dp.handle.LinkByName(kernel.BridgeName(netID))
	must(t, err)
	must(t, w.a.dp.handle.LinkDel(bridge))
	_, err = w.a.dp.Verify(w.ctx, w.a.desired) // it sees the loss, and the next apply mends it
	must(t, err)
	w.a.carry()
	beyond(nothing)
	inside()
	w.a.forward(true)
	beyond(all)
}

// An overlay needs no forwarding of the host: HNS itself carries its packets.
func TestOverlayNeedsNoForwarding(t *testing.T) {
	w := newOverlay(t)
	near, far := w.a.pod(11), w.b.pod(11)
	w.a.carry()
	w.b.carry()
	w.serve(far, "far", 80)
	w.serve("out", "out", 80)
	w.expect(near, "10.244.2.11:80", "far 10.244.1.11")
	w.expect(near, outside+":80", "out 10.99.0.21")
}

// The host's endpoint brings a default route to an address that nobody has, in front of the host's own. A program of
// the host can delete it, and it does not come back by itself; an endpoint without a gateway brings none.
func TestHostEndpointsDefaultRoute(t *testing.T) {
	w := newWorld(t)
	host := desired.Endpoint{ID: "host-ep", Network: netID, Namespace: hostNS, Addrs: prefixList("10.244.1.2/24"),
		Gateway: netip.IPv4Unspecified()}
	w.a.desired.Endpoints = append(w.a.desired.Endpoints, host)
	w.serve("out", "out", 80)
	w.a.apply()
	w.expect("a", outside+":80", "out 10.99.0.21")

	w.a.desired.Endpoints = nil
	w.a.apply()
	host.Gateway = netip.MustParseAddr("10.244.1.1")
	w.a.desired.Endpoints = append(w.a.desired.Endpoints, host)
	w.a.apply()
	// later ones may find that the gateway is dead
	if got := w.get("a", "tcp", outside+":80"); got == "out 10.99.0.21" {
		t.Error("traffic to the outside goes its usual way")
	}

	bridge, err := w.a.dp.handle.LinkByName(kernel.BridgeName(netID))
	must(t, err)
	must(t,
		w.a.dp.DeleteRoute(hoststack.Route{Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: host.Gateway,
			Link: bridge.Attrs().Index}))
	w.a.apply()
	w.expect("a", outside+":80", "out 10.99.0.21")
}

// A change of an interface's settings is reported as one of the interface, and only while somebody watches.
func TestWatchForwarding(t *testing.T) {
	w := newWorld(t)
	w.a.carry()
	eth0, err := w.a.dp.handle.LinkByName("eth0")
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	events, err := w.a.dp.Watch(ctx, "interfaces")
	must(t, err)

	must(t, w.a.dp.SetForwarding(eth0.Attrs().Index, false, true))
	for e := range events {
		if e.Link == eth0.Attrs().Index && e.Type == hoststack.EventChange {
			cancel()
		}
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error("the change was not reported")
	}
	must(t, w.a.dp.SetForwarding(eth0.Attrs().Index, false, false)) // does not wait for anybody
}
