package kernel

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

var (
	net1    = hns.Network{ID: "net-1", Name: "porthole", Type: hns.L2Bridge}
	ws2025  = hns.Version{Major: 15, Minor: 5}
	ws2022  = hns.Version{Major: 13, Minor: 3}
	ws2019  = hns.Version{Major: 9, Minor: 5}
	factsOf = func(v hns.Version) Facts { return Facts{Network: net1, Version: v, DSR: true} }
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

func remote(addr string) hns.Endpoint {
	a := netip.MustParseAddr(addr)
	return hns.Endpoint{ID: endpointID(net1.ID, a), Name: namePrefix + addr, Network: net1.ID, Remote: true, Addrs: []netip.Addr{a}}
}

func foreignRemote(addr string) hns.Endpoint {
	e := remote(addr)
	e.ID, e.Name = hns.EndpointID(markedID("0a0a0a0a-0000-4", addr)), "Ethernet"
	return e
}

func local(addr string) hns.Endpoint {
	return hns.Endpoint{ID: hns.EndpointID(markedID("0b0b0b0b-0000-4", addr)), Network: net1.ID, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}
}

// served is the load balancer as we make it for a frontend.
func served(f service.Frontend, version hns.Version, endpoints ...hns.Endpoint) hns.LoadBalancer {
	facts := factsOf(version)
	lb := document(&f, f.Backends[0].Port, &facts)
	lb.ID = lbID(f.Key)
	for _, e := range endpoints {
		lb.Endpoints = append(lb.Endpoints, e.ID)
	}
	return lb
}

func foreign(lb hns.LoadBalancer) hns.LoadBalancer {
	lb.ID = "0a0a0a0a-0000-4000-8000-000000000001"
	return lb
}

func TestPlan(t *testing.T) {
	web := clusterIP("10.96.0.10:80", "local 10.244.2.5:8080", "10.244.3.5:8080")
	affine := web
	affine.Affinity = true
	for _, c := range []struct {
		name     string
		wanted   []service.Frontend
		listed   Listed
		version  hns.Version
		want     []string
		problems []string
	}{
		{
			name: "new service creates only what HNS does not know", wanted: []service.Frontend{web}, version: ws2025,
			listed: Listed{Endpoints: []hns.Endpoint{local("10.244.2.5")}},
			want:   []string{"create endpoint 10.244.3.5", "create lb 10.96.0.10 80/tcp -> 10.244.2.5,10.244.3.5:8080 dsr"},
		},
		{
			name: "right is left alone", wanted: []service.Frontend{web}, version: ws2025,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), remote("10.244.3.5")},
				LoadBalancers: []hns.LoadBalancer{served(web, ws2025, local("10.244.2.5"), remote("10.244.3.5"))},
			},
		},
		{
			name: "right is adopted whoever made it", wanted: []service.Frontend{web}, version: ws2019,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), foreignRemote("10.244.3.5")},
				LoadBalancers: []hns.LoadBalancer{foreign(served(web, ws2019, foreignRemote("10.244.3.5"), local("10.244.2.5")))},
			},
		},
		{
			name: "changed backends modify where HNS can", wanted: []service.Frontend{web}, version: ws2025,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), remote("10.244.3.5"), remote("10.244.3.9")},
				LoadBalancers: []hns.LoadBalancer{served(web, ws2025, local("10.244.2.5"), remote("10.244.3.9"))},
			},
			want: []string{
				"modify lb 10.96.0.10 80/tcp -> 10.244.2.5,10.244.3.5:8080 dsr (backends +1 -1)",
				"delete endpoint 10.244.3.9",
			},
		},
		{
			name: "and replace where it cannot", wanted: []service.Frontend{web}, version: ws2022,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), remote("10.244.3.5")},
				LoadBalancers: []hns.LoadBalancer{served(web, ws2022, local("10.244.2.5"))},
			},
			want: []string{"replace lb 10.96.0.10 80/tcp -> 10.244.2.5,10.244.3.5:8080 dsr (backends +1 -0)"},
		},
		{
			name: "foreign objects stay", version: ws2025,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), foreignRemote("10.244.3.5"), remote("10.244.3.6")},
				LoadBalancers: []hns.LoadBalancer{foreign(served(web, ws2025, foreignRemote("10.244.3.5"), remote("10.244.3.6")))},
			},
		},
		{
			name: "what nobody wants goes, balancer first", version: ws2025,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), remote("10.244.3.5")},
				LoadBalancers: []hns.LoadBalancer{served(web, ws2025, local("10.244.2.5"), remote("10.244.3.5"))},
			},
			want: []string{"delete lb 10.96.0.10 80/tcp", "delete endpoint 10.244.3.5"},
		},
		{
			name: "no backends, no balancer", version: ws2025, wanted: []service.Frontend{clusterIP("10.96.0.10:80")},
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5")},
				LoadBalancers: []hns.LoadBalancer{served(web, ws2025, local("10.244.2.5"))},
			},
			want: []string{"delete lb 10.96.0.10 80/tcp"},
		},
		{
			name: "a pod of this node that HNS does not know is left out and reported", wanted: []service.Frontend{web}, version: ws2025,
			listed:   Listed{Endpoints: []hns.Endpoint{remote("10.244.3.5")}},
			want:     []string{"create lb 10.96.0.10 80/tcp -> 10.244.3.5:8080 dsr"},
			problems: []string{"10.96.0.10 80/tcp: HNS has no endpoint for 1 of this node's pods behind it"},
		},
		{
			name: "a frontend held by strangers", wanted: []service.Frontend{web}, version: ws2025,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), remote("10.244.3.5")},
				LoadBalancers: []hns.LoadBalancer{foreign(served(web, ws2025, foreignRemote("192.0.2.1")))},
			},
			problems: []string{"10.96.0.10 80/tcp: the frontend is owned by load balancer 0a0a0a0a-0000-4000-8000-000000000001, which is not ours"},
		},
		{
			name: "half a document is garbage, not a crash", version: ws2025,
			listed: Listed{
				Endpoints:     []hns.Endpoint{{ID: hns.EndpointID(markedID(endpointMark, "x")), Remote: true, Name: namePrefix + "lost"}},
				LoadBalancers: []hns.LoadBalancer{{ID: lbID(web.Key)}},
			},
			want: []string{"delete lb node 0/protocol0", "delete endpoint invalid IP"},
		},
		{
			name: "affinity", wanted: []service.Frontend{affine}, version: ws2022,
			listed: Listed{
				Endpoints:     []hns.Endpoint{local("10.244.2.5"), remote("10.244.3.5")},
				LoadBalancers: []hns.LoadBalancer{served(web, ws2022, local("10.244.2.5"), remote("10.244.3.5"))},
			},
			want: []string{"replace lb 10.96.0.10 80/tcp -> 10.244.2.5,10.244.3.5:8080 dsr affinity (affinity changed)"},
		},
		{
			name: "affinity that this HNS lacks is reported, the service served", wanted: []service.Frontend{affine}, version: ws2019,
			listed:   Listed{Endpoints: []hns.Endpoint{local("10.244.2.5"), remote("10.244.3.5")}},
			want:     []string{"create lb 10.96.0.10 80/tcp -> 10.244.2.5,10.244.3.5:8080 dsr"},
			problems: []string{"10.96.0.10 80/tcp: session affinity needs HNS 12.0, this is 9.5"},
		},
		{
			name: "node port", wanted: []service.Frontend{nodePort(30080, "10.244.3.5:8080")}, version: ws2025,
			want: []string{"create endpoint 10.244.3.5", "create lb node 30080/tcp -> 10.244.3.5:8080 flags=18"},
		},
		{
			name:   "pods on different ports",
			wanted: []service.Frontend{clusterIP("10.96.0.10:80", "10.244.3.5:8080", "10.244.3.6:8080", "10.244.3.7:9090")}, version: ws2025,
			listed:   Listed{Endpoints: []hns.Endpoint{remote("10.244.3.5"), remote("10.244.3.6")}},
			want:     []string{"create lb 10.96.0.10 80/tcp -> 10.244.3.5,10.244.3.6:8080 dsr"},
			problems: []string{"10.96.0.10 80/tcp: its pods listen on different ports; HNS can serve one (8080), 1 pods are left out"},
		},
		{
			name: "two local-only services share backends", version: ws2025,
			wanted: []service.Frontend{clusterIP("10.96.0.10:80", "local 10.244.2.5:8080"), clusterIP("10.96.0.11:80", "local 10.244.2.5:8080")},
			listed: Listed{Endpoints: []hns.Endpoint{local("10.244.2.5")}},
			want: []string{
				"create lb 10.96.0.10 80/tcp -> 10.244.2.5:8080 dsr", "create lb 10.96.0.11 80/tcp -> 10.244.2.5:8080 dsr",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Plan(c.wanted, c.listed, factsOf(c.version))
			want := ""
			if len(c.want) > 0 {
				want = strings.Join(c.want, "\n") + "\n"
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			var problems []string
			for _, p := range got.Problems {
				problems = append(problems, p)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
