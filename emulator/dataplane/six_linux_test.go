package dataplane

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
)

const outside6 = "2001:db8::1"

// newDual is a world with IPv6 beside IPv4: out fd99::1, nodes fd99::21 and fd99::22, pods fd00:1::/64 and fd00:2::/64.
func newDual(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	quiet := func(link string) { // its own address is not tentative for a second
		dir := "net/ipv6/conf/" + link + "/"
		for _, s := range [][2]string{{"disable_ipv6", "1"}, {"accept_dad", "0"}, {"disable_ipv6", "0"}} {
			must(t, platform.SetSysctls(map[string]string{dir + s[0]: s[1]}))
		}
	}

	w.in("out", func() error {
		quiet("sw0")
		w.up("sw0", "fd99::1/64")
		w.up("lo", outside6+"/128")
		must(t,
			netlink.RouteAdd(&netlink.Route{Dst: rtnl.Anywhere(netip.IPv6Unspecified()), Type: unix.RTN_BLACKHOLE,
				Priority: 4000}))
		return platform.SetSysctls(map[string]string{"net/ipv6/conf/all/forwarding": "1",
			"net/bridge/bridge-nf-call-ip6tables": "0"})
	})

	for i, n := range []*node{w.a, w.b} {
		w.in(n.name, func() error {
			quiet("eth0")
			w.up("eth0", fmt.Sprintf("fd99::2%d/64", i+1))
			return netlink.RouteAdd(&netlink.Route{Dst: rtnl.Anywhere(netip.IPv6Unspecified()),
				Gw: net.ParseIP("fd99::1")})
		})
	}

	for i, n := range []*node{w.a, w.b} {
		pods := netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", i+1))
		for _, from := range []string{"a", "b", "out"} {
			if from != n.name {
				w.in(from, func() error {
					return netlink.RouteAdd(&netlink.Route{Dst: platform.IPNet(pods),
						Gw: net.ParseIP(fmt.Sprintf("fd99::2%d", i+1))})
				})
			}
		}
		n.desired.Networks[0].Subnets = append(n.desired.Networks[0].Subnets,
			desired.Subnet{Prefix: pods, Gateway: pods.Addr().Next()})
	}
	return w
}

// dual gives a pod an IPv6 address beside the other.
func (n *node) dual(octet int) string {
	prefix := n.desired.Networks[0].Subnets[1].Prefix
	return n.pod(octet, func(e *desired.Endpoint) {
		addr := prefix.Addr().As16()
		addr[15] = byte(octet)
		e.Addrs = append(e.Addrs, netip.PrefixFrom(netip.AddrFrom16(addr), 64))
		e.OutboundNAT[0].Exceptions = append(e.OutboundNAT[0].Exceptions,
			prefixList("fd00::/16", "fd96::/64", "fd99::/64")...)
		e.SDNRoutes = append(e.SDNRoutes,
			desired.SDNRoute{Destination: netip.MustParsePrefix("fd96::/64"), NeedEncap: true})
	})
}

func lb6(id, vip string, port, inner uint16, dsr bool, backends ...string) desired.LoadBalancer {
	l := lb(id, vip, port, inner, dsr, backends...)
	l.IPv6 = true
	return l
}

func TestSix(t *testing.T) { // D-22, and D-1 to D-4, D-9, D-10, D-20 in IPv6
	w := newDual(t)
	client, server, far := w.a.dual(11), w.a.dual(12), w.b.dual(11)
	single := w.a.pod(13) // IPv4 only
	remote := w.a.remote("fd00:2::b", func(e *desired.Endpoint) { e.Addrs = prefixList("fd00:2::b/128") })
	near := w.a.epID(12)
	w.a.desired.LoadBalancers = []desired.LoadBalancer{
		lb6("dsr-near", "fd96::1", 80, 8080, true, near), lb6("dsr-far", "fd96::2", 80, 8080, true, remote),
		lb6("nat-near", "fd96::3", 80, 8080, false, near), lb6("nat-far", "fd96::4", 80, 8080, false, remote),
		lb6("np-near", "", 30001, 8080, false, near), lb6("np-far", "", 30002, 8080, false, remote),
		lb6("np-local", "", 30003, 8080, true, near),
		lb6("sticky", "fd96::5", 80, 8080, true, near, remote),
		lb("four", "10.96.0.1", 80, 8080, true, near), lb("np-four", "", 30001, 8080, false, near),
	}
	for i := range 2 {
		w.a.desired.LoadBalancers[7].Ports[i].Distribution = 2
	}
	w.a.apply()
	w.b.apply()
	w.serve6(client, "client", 80)
	w.serve6(server, "near", 8080)
	w.serve6(far, "far", 8080)
	w.serve6("out", "out", 80)
	w.serve(server, "near", 8080)
	w.expect6(client, "[fd00:1::c]:8080", "near fd00:1::b")
	w.expect6(client, "[fd00:2::b]:8080", "far fd00:1::b")
	w.expect6("a", "[fd00:1::b]:80", "client fd00:1::1")
	w.expect6(client, "["+outside6+"]:80", "out fd99::21")
	w.expect6(client, "[fd99::1]:80", "out fd00:1::b")
	for i, want := range []string{"near fd00:1::b", "far fd00:1::b", "near fd99::21", "far fd99::21"} {
		w.expect6(client, fmt.Sprintf("[fd96::%d]:80", i+1), want)
	}
	c, err := w.dial6(client, "tcp", "[fd96::5]:80")
	must(t, err)
	sticky, err := ask(c)
	must(t, err)
	c.Close()
	for range 10 {
		w.expect6(client, "[fd96::5]:80", sticky)
	}
	w.expect6("a", "[fd96::2]:80", "far fd99::21")
	w.expect6("a", "[fd96::3]:80", "near fd99::21")
	w.expect6("out", "[fd99::21]:30001", "near fd99::21")
	w.expect6("out", "[fd99::21]:30002", "far fd99::21")
	w.expect6("out", "[fd99::21]:30003", "near fd99::1")
	w.expect6("a", "[fd99::21]:30001", "refused")
	w.expect(client, "10.96.0.1:80", "near 10.244.1.11")
	w.expect(single, "10.96.0.1:80", "near 10.244.1.13")
	w.expect("out", "10.99.0.21:30001", "near 10.99.0.21")

	// Changes one by one, and a restart, with both families.
	moved := w.a.desired.LoadBalancers[0]
	moved.Backends = []string{remote}
	w.a.desired.LoadBalancers[0] = moved
	udp, err := w.dial6(client, "udp", "[fd96::1]:80")
	must(t, err)
	defer udp.Close()
	if got, err := ask(udp); err != nil || got != "near fd00:1::b" {
		t.Errorf("before the change: %q %v", got, err)
	}
	w.update(w.a, desired.Change{LoadBalancers: []desired.LoadBalancer{moved}})
	w.a.dp.flows.Settle()
	if got, err := ask(udp); err != nil || got != "far fd00:1::b" {
		t.Errorf("after the change: %q %v", got, err)
	}
	w.undrifted(w.a)
	again := w.restarted()
	w.a.desired.Endpoints = slices.DeleteFunc(w.a.desired.Endpoints,
		func(e desired.Endpoint) bool { return e.ID == w.a.epID(12) })
	w.a.apply()
	_, err = again.Apply(w.ctx, desired.State{})
	must(t, err)
	if rest := w.snapshot(); leftOfHNS(rest) {
		t.Errorf("after removal of everything: %s", rest)
	}
}

// serve6, dial6, get6 and expect6 are what their namesakes are for IPv4.
func (w *world) serve6(where, name string, port int) {
	w.t.Helper()

	w.in(where, func() error {
		l, err := net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { l.Close() })
		go serveTCP(l, name)
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		for _, a := range addrs {
			ip := a.(*net.IPNet).IP
			if ip.To4() != nil || ip.IsLinkLocalUnicast() {
				continue
			}
			u, err := net.ListenPacket("udp6", fmt.Sprintf("[%s]:%d", ip, port))
			if err != nil {
				return err
			}
			w.t.Cleanup(func() { u.Close() })
			go serveUDP(u, name)
		}
		return nil
	})
}

func (w *world) dial6(where, proto, addr string) (c net.Conn, err error) {
	w.in(where, func() error {
		c, err = net.DialTimeout(proto+"6", addr, patience)
		return nil
	})
	return c, err
}

// get6 is get over IPv6.
func (w *world) get6(where, proto, addr string) string {
	c, err := w.dial6(where, proto, addr)
	if err == nil {
		defer c.Close()
		var answer string
		if answer, err = ask(c); err == nil {
			return answer
		}
	}
	return outcome(err)
}

func (w *world) expect6(where, addr, want string) {
	w.t.Helper()
	for _, proto := range []string{"tcp", "udp"} {
		got := patiently(want, func() string { return w.get6(where, proto, addr) })
		if got != want {
			w.t.Errorf("%s from %s to %s: got %q, want %q", proto, where, addr, got, want)
		}
	}
}
