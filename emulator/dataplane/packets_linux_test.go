package dataplane

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
)

// Rows 1.31, 1.68.
func TestPacketsPods(t *testing.T) {
	w := newWorld(t)
	p1, p2, p3 := w.a.pod(11), w.a.pod(12), w.b.pod(11)
	w.a.desired.Endpoints = append(w.a.desired.Endpoints,
		desired.Endpoint{ID: "host-ep", Network: netID, Namespace: hostNS,
			Addrs: prefixList("10.244.1.2/24")})
	w.a.apply()
	w.b.apply()
	w.serve(p1, "p1", 80)
	w.serve(p3, "p3", 80)
	w.serve("a", "node", 80)
	w.serve("out", "out", 80)
	w.expect(p2, "10.244.1.11:80", "p1 10.244.1.12")
	w.expect(p1, "10.244.2.11:80", "p3 10.244.1.11")
	w.expect("a", "10.244.1.11:80", "p1 10.244.1.2")
	w.expect("b", "10.244.1.11:80", "p1 10.99.0.22")
	w.expect("out", "10.244.1.11:80", "p1 10.99.0.1")
	for _, node := range []string{"10.99.0.21", "10.244.1.2"} {
		w.expect(p1, node+":80", "node 10.244.1.11")
	}
	w.expect(p1, outside+":80", "out 10.99.0.21")   // D-3
	w.expect(p1, "10.99.0.1:80", "out 10.244.1.11") // D-4
}

func TestPacketsClusterIP(t *testing.T) {
	w := newWorld(t)
	client, server, far := w.a.pod(11), w.a.pod(12), w.b.pod(11)
	routeless := w.a.pod(13, func(e *desired.Endpoint) { e.SDNRoutes = nil })
	remote := w.a.remote("10.244.2.11")
	w.a.desired.LoadBalancers = []desired.LoadBalancer{
		lb("dsr-local", "10.96.0.1", 80, 8080, true, w.a.epID(12)),
		lb("dsr-remote", "10.96.0.2", 80, 8080, true, remote),
		lb("nat-local", "10.96.0.3", 80, 8080, false, w.a.epID(12)),
		lb("nat-remote", "10.96.0.4", 80, 8080, false, remote),
	}
	w.a.apply()
	w.b.apply()
	w.serve(server, "near", 8080)
	w.serve(far, "far", 8080)
	w.expect(client, "10.96.0.1:80", "near 10.244.1.11") // D-1
	w.expect(client, "10.96.0.2:80", "far 10.244.1.11")
	w.expect(client, "10.96.0.3:80", "near 10.99.0.21") // D-2
	w.expect(client, "10.96.0.4:80", "far 10.99.0.21")
	w.expect(routeless, "10.96.0.1:80", "near 10.244.1.13") // D-7
	w.expect(routeless, "10.96.0.4:80", "timeout")
	w.expect("a", "10.96.0.2:80", "far 10.99.0.21") // the node's own programs
	w.expect("a", "10.96.0.3:80", "near 10.99.0.21")
}

// Load balancers with an address and port flag 2 or 16 serve pods, the outside and the node's own programs.
func TestPacketsExternal(t *testing.T) {
	w := newWorld(t)
	client, server, far := w.a.pod(11), w.a.pod(12), w.b.pod(11)
	routeless := w.a.pod(13, func(e *desired.Endpoint) { e.SDNRoutes = nil })
	backends := map[string]string{"near": w.a.epID(12), "far": w.a.remote("10.244.2.11")}
	w.in("out", func() error { // addresses of load balancers lead to node a
		return netlink.RouteAdd(&netlink.Route{Dst: platform.IPNet(netip.MustParsePrefix("198.51.100.0/24")),
			Gw: w.a.addr.AsSlice()})
	})
	type document struct {
		vip, backend string
		port         uint16
		dsr          bool
		flags        int
	}

	var all []document
	for i, flags := range []int{2, 16, 18} {
		for j, d := range []document{{backend: "near"}, {backend: "far"}, {backend: "near", dsr: true}} {
			d.flags, d.vip, d.port = flags, fmt.Sprintf("198.51.100.%d", 10*i+j), 80
			all = append(all, d)
		}
	}

	// What a NodePort load balancer lacks: an address of the node itself.
	all = append(all, document{"10.99.0.21", "near", 30001, false, 2}, document{"10.99.0.21", "far", 30002, false, 2},
		document{"10.99.0.21", "near", 30003, true, 2})
	for i, d := range all {
		l := lb(fmt.Sprint("lb", i), d.vip, d.port, 8080, d.dsr, backends[d.backend])
		for p := range l.Ports {
			l.Ports[p].LocalRoutedVIP, l.Ports[p].VIPExternalIP = d.flags&2 != 0, d.flags&16 != 0
		}
		w.a.desired.LoadBalancers = append(w.a.desired.LoadBalancers, l)
	}

	// Beside it the load balancer without an address, for the outside; it does not serve the node.
	w.a.desired.LoadBalancers = append(w.a.desired.LoadBalancers, lb("np", "", 30001, 8080, false, w.a.epID(12)),
		lb("np-only", "", 30009, 8080, false, w.a.epID(12)), lb("inner", "198.51.100.99", 80, 8080, true, w.a.epID(12)))
	w.a.apply()
	w.b.apply()
	w.serve(server, "near", 8080)
	w.serve(far, "far", 8080)
	for _, d := range all {
		addr := fmt.Sprintf("%s:%d", d.vip, d.port)
		sees := map[string]string{client: "10.244.1.11", routeless: "10.244.1.13", "out": "10.99.0.1",
			"a": "10.99.0.21"}
		for from, source := range sees {
			if !d.dsr {
				source = "10.99.0.21"
			}
			w.expect(from, addr, d.backend+" "+source)
		}
	}

	w.expect("a", "10.99.0.21:30009", "refused")
	w.expect("out", "10.99.0.21:30009", "near 10.99.0.21")
	w.expect("out", "198.51.100.99:80", "timeout") // no flag: not for the outside
	w.expect(routeless, "198.51.100.99:80", "near 10.244.1.13")
}
