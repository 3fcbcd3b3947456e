package dataplane

import (
	"net/netip"
	"testing"
)

func TestPacketsPods(t *testing.T) {
	w := newWorld(t)
	p1, p2, p3 := w.a.pod(11), w.a.pod(12), w.b.pod(11)
	w.a.desired.Endpoints = append(w.a.desired.Endpoints, Endpoint{ID: "host-ep", Network: netID, Namespace: hostNS,
		Addrs: prefixList("10.244.1.2/24"), Gateway: netip.MustParseAddr("10.244.1.1")})
	w.a.apply()
	w.b.apply()
	w.serve(p1, "p1", 80)
	w.serve(p3, "p3", 80)
	w.serve("a", "node", 80)
	w.serve("out", "out", 80)
	w.expect(p2, "10.244.1.11:80", "p1 10.244.1.12")
	w.expect(p1, "10.244.2.11:80", "p3 10.244.1.11")
	w.expect("a", "10.244.1.11:80", "p1 10.244.1.1")
	w.expect("b", "10.244.1.11:80", "p1 10.99.0.22")
	w.expect("out", "10.244.1.11:80", "p1 10.99.0.1")
	for _, node := range []string{"10.99.0.21", "10.244.1.1", "10.244.1.2"} {
		w.expect(p1, node+":80", "node 10.244.1.11")
	}
	w.expect(p1, outside+":80", "out 10.99.0.21")   // D-3
	w.expect(p1, "10.99.0.1:80", "out 10.244.1.11") // D-4
}

func TestPacketsClusterIP(t *testing.T) {
	w := newWorld(t)
	client, server, far := w.a.pod(11), w.a.pod(12), w.b.pod(11)
	routeless := w.a.pod(13, func(e *Endpoint) { e.SDNRoutes = nil })
	remote := w.a.remote("10.244.2.11")
	w.a.desired.LoadBalancers = []LoadBalancer{
		lb("dsr-local", "10.96.0.1", 80, 8080, true, w.a.epID(12)), lb("dsr-remote", "10.96.0.2", 80, 8080, true, remote),
		lb("nat-local", "10.96.0.3", 80, 8080, false, w.a.epID(12)), lb("nat-remote", "10.96.0.4", 80, 8080, false, remote),
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
