package dataplane

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
)

const testVSID = 4096

// newOverlay is a world in which only the overlay leads to other nodes' pods.
func newOverlay(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for _, n := range []*node{w.a, w.b} {
		for _, from := range []string{"a", "b", "out"} {
			if from != n.name {
				w.in(from, func() error {
					return netlink.RouteDel(&netlink.Route{Dst: platform.IPNet(n.pods), Gw: n.addr.AsSlice()})
				})
			}
		}
		network := &n.desired.Networks[0]
		network.Type, network.Subnets[0].VSID = "Overlay", testVSID
		network.Provider, network.RouterMAC, network.HostRoute = n.addr, routerMAC(n), true
	}
	w.a.desired.Networks[0].RemoteSubnets = []desired.RemoteSubnet{{Prefix: w.b.pods, VSID: testVSID,
		Provider: w.b.addr, MAC: routerMAC(w.b)}}
	w.b.desired.Networks[0].RemoteSubnets = []desired.RemoteSubnet{{Prefix: w.a.pods, VSID: testVSID,
		Provider: w.a.addr, MAC: routerMAC(w.a)}}
	return w
}

func routerMAC(n *node) string { return fmt.Sprintf("00:15:5d:aa:00:%02x", n.addr.As4()[3]) }

func (w *world) applyBoth() {
	w.t.Helper()
	w.a.apply()
	w.b.apply()
}

func TestOverlayPods(t *testing.T) { // D-12, D-14
	w := newOverlay(t)
	near, far := w.a.pod(11), w.b.pod(11)
	w.applyBoth()
	w.serve(far, "far", 80)
	w.serve(near, "near", 80)
	w.serve("out", "out", 80)
	w.expect(near, "10.244.2.11:80", "far 10.244.1.11")
	w.expect(far, "10.244.1.11:80", "near 10.244.2.11")
	w.expect(near, outside+":80", "out 10.99.0.21")
	if got := w.get("out", "tcp", "10.244.2.11:80"); strings.HasPrefix(got, "far") {
		t.Errorf("a pod answers without the overlay: %s", got)
	}
	w.expect("a", "10.244.1.11:80", "near 10.244.1.1")

	remote := &w.a.desired.Networks[0].RemoteSubnets
	right := (*remote)[0]
	for name, wrong := range map[string]desired.RemoteSubnet{
		"provider address": {Prefix: right.Prefix, VSID: right.VSID, Provider: netip.MustParseAddr("10.99.0.99"),
			MAC: right.MAC},
		"router MAC": {Prefix: right.Prefix, VSID: right.VSID, Provider: right.Provider,
			MAC: "00:15:5d:aa:00:99"},
		"VSID": {Prefix: right.Prefix, VSID: right.VSID + 1, Provider: right.Provider, MAC: right.MAC},
	} {
		*remote = []desired.RemoteSubnet{wrong}
		w.a.apply()
		if got := w.get(near, "tcp", "10.244.2.11:80"); got == "far 10.244.1.11" {
			t.Errorf("a wrong %s does not matter", name)
		}
	}
	*remote = nil
	w.a.apply()
	if got := w.get(near, "tcp", "10.244.2.11:80"); got == "far 10.244.1.11" {
		t.Error("without a remote subnet its pods answer")
	}
	*remote = []desired.RemoteSubnet{right}
	w.a.apply()
	w.expect(near, "10.244.2.11:80", "far 10.244.1.11")

	w.a.desired.Networks[0].HostRoute = false
	w.a.apply()
	for _, proto := range []string{"tcp", "udp"} {
		if got := w.get("a", proto, "10.244.1.11:80"); strings.HasPrefix(got, "near") {
			t.Errorf("the host reaches its pod over %s without a HostRoute: %s", proto, got)
		}
	}
	w.expect(near, "10.244.2.11:80", "far 10.244.1.11")
}

func TestOverlayServices(t *testing.T) { // D-1, D-2, D-10 on an overlay
	w := newOverlay(t)
	client, server, far := w.a.pod(11), w.a.pod(12), w.b.pod(11)
	remote := w.a.remote("10.244.2.11", func(e *desired.Endpoint) { e.Provider, e.MAC = w.b.addr, "02:11:0a:f4:02:0b" })
	// As the proxy of upstream makes them: the source address, and an endpoint for a service's own address.
	w.a.desired.Endpoints = append(w.a.desired.Endpoints,
		desired.Endpoint{ID: "source-vip", Network: netID, Addrs: prefixList("10.244.1.2/24"),
			MAC: "02:fc:00:00:00:01"})
	w.a.remote("10.96.0.1", func(e *desired.Endpoint) { e.Provider, e.MAC = w.a.addr, "02:fc:00:00:00:01" })
	source := netip.MustParseAddr("10.244.1.2")
	balance := func(id, vip string, port uint16, dsr bool, backend string) {
		l := lb(id, vip, port, 8080, dsr, backend)
		l.SourceVIP = source
		w.a.desired.LoadBalancers = append(w.a.desired.LoadBalancers, l)
	}

	balance("dsr-near", "10.96.0.1", 80, true, w.a.epID(12))
	balance("dsr-far", "10.96.0.2", 80, true, remote)
	balance("nat-near", "10.96.0.3", 80, false, w.a.epID(12))
	balance("nat-far", "10.96.0.4", 80, false, remote)
	balance("np-near", "", 30001, false, w.a.epID(12))
	balance("np-far", "", 30002, false, remote)
	balance("np-local", "", 30003, true, w.a.epID(12))
	balance("node-far", "10.99.0.21", 30002, false, remote)
	w.a.desired.LoadBalancers[len(w.a.desired.LoadBalancers)-1].Ports[0].LocalRoutedVIP = true
	w.applyBoth()
	w.serve(server, "near", 8080)
	w.serve(far, "far", 8080)
	w.expect(client, "10.96.0.1:80", "near 10.244.1.11")
	w.expect(client, "10.96.0.2:80", "far 10.244.1.11")
	w.expect(client, "10.96.0.3:80", "near 10.244.1.2")
	w.expect(client, "10.96.0.4:80", "far 10.244.1.2")
	w.expect("a", "10.96.0.3:80", "near 10.244.1.2")
	w.expect("a", "10.96.0.4:80", "far 10.244.1.2")
	w.expect("a", "10.99.0.21:30002", "far 10.244.1.2")
	w.expect("a", "10.99.0.21:30001", "refused")
	w.expect("out", "10.99.0.21:30001", "near 10.244.1.2")
	w.expect("out", "10.99.0.21:30002", "far 10.244.1.2")
	w.expect("out", "10.99.0.21:30003", "near 10.99.0.1")
	// Load balancers reach their backends without a HostRoute, too.
	w.a.desired.Networks[0].HostRoute = false
	// A remote endpoint's own provider address counts where it differs from the subnet's.
	endpoint := &w.a.desired.Endpoints[2]
	endpoint.Provider = netip.MustParseAddr("10.99.0.99")
	w.a.apply()
	w.expect("a", "10.96.0.3:80", "near 10.244.1.2")
	if got := w.get(client, "tcp", "10.96.0.2:80"); strings.HasPrefix(got, "far") {
		t.Errorf("a wrong provider address of the endpoint does not matter: %s", got)
	}
	endpoint.Provider = w.b.addr
	w.a.apply()
	w.expect(client, "10.96.0.2:80", "far 10.244.1.11")
}

// TestOverlayOutsideBackends: a node port whose backend is another node itself. As upstream's proxy makes it, the load
// balancer sends from the node's own address. Pods and the node reach the backend. Packets of clients outside of the
// cluster pass the network card in and out, which needs forwarding on it.
func TestOverlayOutsideBackends(t *testing.T) {
	w := newOverlay(t)
	client := w.a.pod(11)
	backend := w.a.remote(w.b.addr.String(),
		func(e *desired.Endpoint) { e.Provider, e.MAC = w.a.addr, "02:11:0a:63:00:16" })
	for _, l := range []desired.LoadBalancer{lb("cluster", "10.96.0.1", 80, 8080, false, backend),
		lb("np", "", 30001, 8080, false, backend)} {
		l.SourceVIP = w.a.addr
		w.a.desired.LoadBalancers = append(w.a.desired.LoadBalancers, l)
	}
	w.applyBoth()
	w.serve("b", "node b", 8080)
	w.expect(client, "10.96.0.1:80", "node b "+w.a.addr.String())
	w.expect("a", "10.96.0.1:80", "node b "+w.a.addr.String())

	address := netip.AddrPortFrom(w.a.addr, 30001).String()
	w.a.forward(false)
	if got := w.get("out", "tcp", address); strings.HasPrefix(got, "node") {
		t.Errorf("without forwarding on the card a client outside is served: %s", got)
	}
	w.a.forward(true)
	w.expect("out", address, "node b "+w.a.addr.String())
}

func TestOverlayIsolation(t *testing.T) { // D-13
	w := newOverlay(t)
	const other = "11111111-0000-0000-0000-000000000002"
	for i, n := range []*node{w.a, w.b} {
		second := n.desired.Networks[0]
		second.ID, second.Subnets = other,
			[]desired.Subnet{{Prefix: netip.MustParsePrefix(fmt.Sprintf("10.250.%d.0/24", i+1)), VSID: 5000}}
		second.RemoteSubnets = []desired.RemoteSubnet{
			{Prefix: netip.MustParsePrefix(fmt.Sprintf("10.250.%d.0/24", 2-i)), VSID: 5000,
				Provider: netip.MustParseAddr(fmt.Sprintf("10.99.0.%d", 22-i)),
				MAC:      fmt.Sprintf("00:15:5d:aa:00:%02x", 22-i)}}
		n.desired.Networks = append(n.desired.Networks, second)
	}

	inOther := func(e *desired.Endpoint) {
		e.Network, e.Addrs, e.Gateway = other, prefixList(strings.Replace(e.Addrs[0].String(), "10.244.", "10.250.",
			1)), netip.Addr{}
	}
	p, q, r := w.a.pod(11), w.a.pod(12, inOther), w.b.pod(12, inOther)
	w.applyBoth()
	for _, pod := range []string{p, q, r} {
		w.serve(pod, pod, 80)
	}
	w.expect(q, "10.250.2.12:80", r+" 10.250.1.12")
	w.expect(p, "10.250.1.12:80", "timeout")
	w.expect(p, "10.250.2.12:80", "timeout")
	w.expect(q, "10.244.1.11:80", "timeout")
	w.a.desired.Networks = append(w.a.desired.Networks,
		desired.Network{ID: "third", Type: "Overlay", Subnets: []desired.Subnet{{Prefix: w.a.pods, VSID: 6000}}})
	res, err := w.a.dp.Apply(w.ctx, w.a.desired)
	must(t, err)
	if res["third"] == nil {
		t.Error("a second network with the same subnet was accepted")
	}
}

// Row 1.45.
func TestOverlayMTU(t *testing.T) { // D-15
	w := newOverlay(t)
	near, far := w.a.pod(11), w.b.pod(11)
	w.applyBoth()
	w.serve(far, "far", 80)
	send := func(size int) error {
		return platform.InNetns(w.path(near), func() error {
			c, err := net.Dial("udp4", "10.244.2.11:80")
			if err != nil {
				return err
			}
			defer c.Close()
			raw, err := c.(*net.UDPConn).SyscallConn()
			if err != nil {
				return err
			}
			if err := raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
			}); err != nil {
				return err
			}
			_, err = c.Write(make([]byte, size-28))
			return err
		})
	}

	if err := send(1450); err != nil {
		t.Errorf("1450 bytes: %v", err)
	}
	if err := send(1451); err == nil {
		t.Error("1451 bytes were accepted")
	}
	// A long stream gets through both ways, so no full packet is lost.
	c, err := w.dial(near, "tcp", "10.244.2.11:80")
	must(t, err)
	defer c.Close()
	if _, err := c.Write([]byte(strings.Repeat("x", 60000) + "\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(c); err != nil || got != "far 10.244.1.11" {
		t.Errorf("after a long line: %q %v", got, err)
	}
}

// A restarted daemon adopts tunnels and ways, mends what is not right, and removes everything in the end.
func TestOverlayRestart(t *testing.T) {
	w := newOverlay(t)
	near, far := w.a.pod(11), w.b.pod(11)
	w.applyBoth()
	w.serve(far, "far", 80)
	again := w.restarted()
	w.in("a", func() error {
		link, err := netlink.LinkByName(kernel.TunnelName(netID, testVSID))
		if err != nil {
			return err
		}
		if err := netlink.RouteDel(&netlink.Route{LinkIndex: link.Attrs().Index,
			Dst: platform.IPNet(w.b.pods)}); err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE,
			State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
			IP: net.ParseIP("10.99.0.98"), HardwareAddr: net.HardwareAddr{0, 0x15, 0x5d, 1, 2, 3}})
	})

	drift, err := again.Verify(w.ctx, w.a.desired)
	must(t, err)
	if len(drift) != 2 {
		t.Errorf("damage was not seen: %v", drift)
	}
	w.a.apply()
	w.expect(near, "10.244.2.11:80", "far 10.244.1.11")
	w.a.desired.Networks[0].VxlanPort = 4790
	w.a.apply()
	if got := w.get(near, "tcp", "10.244.2.11:80"); got == "far 10.244.1.11" {
		t.Error("the tunnel's port does not matter")
	}
	w.b.desired.Networks[0].VxlanPort = 4790
	w.b.apply()
	w.expect(near, "10.244.2.11:80", "far 10.244.1.11")
	_, err = again.Apply(w.ctx, desired.State{})
	must(t, err)
	if rest := w.snapshot(); leftOfHNS(rest) {
		t.Errorf("after removal of everything: %s", rest)
	}
}

// TestOverlayStretched: one subnet is on two hosts. Each knows the other's pods by remote endpoints with a provider
// address and the pod's own MAC, and the second host one of them by a RemoteSubnetRoute of one address.
func TestOverlayStretched(t *testing.T) {
	w := newOverlay(t)
	for _, n := range []*node{w.a, w.b} {
		n.desired.Networks[0].RemoteSubnets, n.desired.Networks[0].Subnets[0].Prefix = nil,
			netip.MustParsePrefix("10.247.0.0/16")
	}
	const macA, macB, macC = "0e:2a:0a:f7:01:0b", "0e:2a:0a:f7:02:0b", "0e:2a:0a:f7:02:0c"
	at := func(addr, mac string) func(*desired.Endpoint) {
		return func(e *desired.Endpoint) { e.Addrs, e.MAC, e.Gateway = prefixList(addr+"/16"), mac, netip.Addr{} }
	}
	a, b, c := w.a.pod(11, at("10.247.1.11", macA)), w.b.pod(11, at("10.247.2.11", macB)), w.b.pod(12,
		at("10.247.2.12", macC))
	onB := func(mac string) func(*desired.Endpoint) {
		return func(e *desired.Endpoint) { e.Provider, e.MAC = w.b.addr, mac }
	}
	backend := w.a.remote("10.247.2.11", onB(macB))
	w.b.remote("10.247.1.11", func(e *desired.Endpoint) { e.Provider, e.MAC = w.a.addr, macA })
	subnet := &w.a.desired.Networks[0]
	subnet.RemoteSubnets = []desired.RemoteSubnet{{Prefix: netip.MustParsePrefix("10.247.2.12/32"), VSID: testVSID,
		Provider: w.b.addr, MAC: routerMAC(w.b)}}
	w.a.desired.LoadBalancers = append(w.a.desired.LoadBalancers, lb("stretched", "10.96.0.1", 80, 8080, true, backend))
	w.applyBoth()

	w.serve(a, "a", 80)
	w.serve(b, "b", 80)
	w.serve(b, "b", 8080)
	w.serve(c, "c", 80)
	w.expect(a, "10.247.2.11:80", "b 10.247.1.11")
	w.expect(a, "10.247.2.12:80", "c 10.247.1.11")
	w.expect(b, "10.247.1.11:80", "a 10.247.2.11")
	w.expect(a, "10.96.0.1:80", "b 10.247.1.11")

	again := w.restarted()
	drift, err := again.Verify(w.ctx, w.a.desired)
	must(t, err)
	if len(drift) > 0 {
		t.Errorf("after a restart: %v", drift)
	}
	remote := &w.a.desired.Endpoints[len(w.a.desired.Endpoints)-1]
	for what, wrong := range map[string]func(*desired.Endpoint){
		"MAC address":      onB("0e:2a:0a:f7:02:63"),
		"another pod's":    onB(macC),
		"provider address": func(e *desired.Endpoint) { e.Provider, e.MAC = netip.MustParseAddr("10.99.0.99"), macB },
	} {
		wrong(remote)
		w.a.apply()
		if got := w.get(a, "tcp", "10.247.2.11:80"); strings.HasPrefix(got, "b") {
			t.Errorf("a wrong %s does not matter: %s", what, got)
		}
	}
	onB(macB)(remote)
	w.a.apply()
	w.expect(a, "10.247.2.11:80", "b 10.247.1.11")

	_, err = again.Apply(w.ctx, desired.State{})
	must(t, err)
	if rest := w.snapshot(); leftOfHNS(rest) {
		t.Errorf("after removal of everything: %s", rest)
	}
}
