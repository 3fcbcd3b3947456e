package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

var (
	net1    = hns.Network{ID: "net-1", Name: "porthole", Type: hns.L2Bridge}
	ws2025  = hns.Version{Major: 15, Minor: 5}
	ws2022  = hns.Version{Major: 13, Minor: 3}
	ws2019  = hns.Version{Major: 9, Minor: 5}
	factsOf = func(v hns.Version) balance.Facts { return balance.Facts{Network: net1, Version: v, DSR: true} }
)

// at reads "10.0.0.1:80", with a leading "local " for a pod of this node.
func at(s string) service.Backend {
	rest, local := strings.CutPrefix(s, "local ")
	ap := netip.MustParseAddrPort(rest)
	return service.Backend{Addr: ap.Addr(), Port: ap.Port(), Local: local}
}

func clusterIP(vip string, backends ...string) service.Frontend {
	ap := netip.MustParseAddrPort(vip)
	f := service.Frontend{Kind: service.ClusterIP, Service: "default/" + vip}
	f.Key = service.Key{VIP: ap.Addr(), Protocol: hns.TCP, Port: ap.Port(), IPv6: ap.Addr().Is6()}
	for _, b := range backends {
		f.Backends = append(f.Backends, at(b))
	}
	return f
}

func nodePort(port uint16, backends ...string) service.Frontend {
	f := clusterIP("10.96.0.1:1", backends...)
	f.Kind, f.Key = service.NodePort, service.Key{Protocol: hns.TCP, Port: port}
	return f
}

// remote is our endpoint for a pod of another node.
func remote(addr netip.Addr, facts *balance.Facts) hns.Endpoint {
	e, _ := balance.EndpointFor(addr, false, facts)
	return e
}

// foreignRemote is a remote endpoint that another proxy created.
func foreignRemote(addr string) hns.Endpoint {
	facts := factsOf(ws2022)
	e := remote(netip.MustParseAddr(addr), &facts)
	e.ID, e.Name = hns.EndpointID(foreignID(addr)), "Ethernet"
	return e
}

// local is the endpoint of a pod of this node.
func local(addr string) hns.Endpoint {
	return hns.Endpoint{ID: hns.EndpointID(foreignID("local " + addr)), Network: net1.ID,
		Addrs: []netip.Addr{netip.MustParseAddr(addr)}}
}

func foreignID(of string) string {
	sum := sha256.Sum256([]byte(of))
	return "0a0a0a0a-0000-4000-8000-" + hex.EncodeToString(sum[:6])
}

// served is the load balancer that we would create for a frontend, with the given endpoints.
func served(f service.Frontend, version hns.Version, endpoints ...hns.Endpoint) hns.LoadBalancer {
	facts := factsOf(version)
	planner := balance.Planner{Index: balance.NewIndex(), Facts: &facts}
	plan := planner.Frontend(&f)
	lb := plan.Ops[len(plan.Ops)-1].LB
	for _, e := range endpoints {
		lb.Endpoints = append(lb.Endpoints, e.ID)
	}
	return lb
}
