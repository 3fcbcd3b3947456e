package path

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/hns"
)

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func uplink(name, address, mac string) Interface {
	return Interface{Name: name, MAC: mac, Up: true, MTU: 1500, Addresses: []netip.Prefix{prefix(address)},
		Forwarding: true}
}

// linux is a Linux node whose pods are behind the bridge cni0.
func linux(name, address, pods, gateway, mac string) Node {
	return Node{Name: name, System: "linux", Mode: "host-gateway",
		Confs:      []string{"/etc/cni/net.d/10-porthole.conflist"},
		Interfaces: []Interface{uplink("eth0", address+"/24", mac), uplink("cni0", gateway+"/24", "02:00:00:00:01:01")},
		Routes: []Route{
			{Destination: prefix("0.0.0.0/0"), NextHop: addr("10.0.0.1"), Interface: "eth0"},
			{Destination: prefix("10.0.0.0/24"), Interface: "eth0"},
			{Destination: prefix(pods), Interface: "cni0"},
		}}
}

// windows is a Windows node with one pod, and a load balancer 10.96.0.80:80 for the backends 10.244.0.5 and
// 10.244.1.5, port 8080.
func windows(name, address, pods, host, pod, mac string) Node {
	n := Node{Name: name, System: "windows", Mode: "host-gateway", Confs: []string{`C:\etc\cni\net.d\10-porthole.conf`},
		Interfaces: []Interface{uplink("vEthernet (Ethernet)", address+"/24", mac),
			uplink("vEthernet (porthole_ep)", host+"/24", "00:15:5d:00:00:02")},
		Routes: []Route{
			{Destination: prefix("0.0.0.0/0"), NextHop: addr("10.0.0.1"), Interface: "vEthernet (Ethernet)"},
			{Destination: prefix("10.0.0.0/24"), Interface: "vEthernet (Ethernet)", Metric: 256},
			{Destination: prefix(pods), Interface: "vEthernet (porthole_ep)", Metric: 256},
		}}
	policies := []hns.Policy{
		{Type: "OutBoundNAT",
			Settings: json.RawMessage(`{"Exceptions":["10.244.0.0/16","10.96.0.0/16","10.0.0.0/24"]}`)},
		{Type: "SDNRoute", Settings: json.RawMessage(`{"DestinationPrefix":"` + address + `/32","NeedEncap":true}`)},
	}
	n.HNS = &HNS{
		Networks: []hns.Network{{ID: "n", Name: "porthole", Type: hns.L2Bridge}},
		Endpoints: []hns.Endpoint{
			{ID: "pod", Name: "pod_porthole", Network: "n", Namespace: "ns", Addrs: []netip.Addr{addr(pod)},
				Policies: policies},
			{ID: "five", Name: "far", Network: "n", Remote: true, Addrs: []netip.Addr{addr("10.244.0.5")}},
			{ID: "six", Name: "far", Network: "n", Remote: true, Addrs: []netip.Addr{addr("10.244.1.5")}},
		},
		Balancers: []hns.LoadBalancer{{ID: "1234-5", Endpoints: []hns.EndpointID{"five", "six"},
			VIPs:  []netip.Addr{addr("10.96.0.80")},
			Ports: []hns.Port{{Protocol: hns.TCP, External: 80, Internal: 8080}}}},
	}
	return n
}

// three are a Linux node, two Windows nodes and a router, in mode host-gateway, with nothing wrong.
func three() *Facts {
	f := &Facts{}
	lin := linux("lin", "10.0.0.11", "10.244.0.0/24", "10.244.0.1", "02:00:00:00:00:11")
	lin.Services = []Rule{{Address: addr("10.96.0.80"), Protocol: "tcp", Port: 80, Text: "nft chain service-web",
		Backends: []netip.AddrPort{netip.MustParseAddrPort("10.244.0.5:8080"),
			netip.MustParseAddrPort("10.244.1.5:8080")}}}
	f.Nodes = []Node{lin,
		windows("win", "10.0.0.21", "10.244.1.0/24", "10.244.1.2", "10.244.1.5", "02:00:00:00:00:21"),
		windows("win2", "10.0.0.22", "10.244.2.0/24", "10.244.2.2", "10.244.2.5", "02:00:00:00:00:22"),
		{Name: "router", System: "linux",
			Interfaces: []Interface{uplink("sw0", "10.0.0.1/24", "02:00:00:00:00:01"),
				uplink("lo", "203.0.113.1/32", "")},
			Routes: []Route{{Destination: prefix("10.0.0.0/24"), Interface: "sw0"}}},
	}

	for i, n := range []string{"lin", "win", "win2"} {
		host := addr([]string{"10.0.0.11", "10.0.0.21", "10.0.0.22"}[i])
		pods := prefix([]string{"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"}[i])
		pod := addr([]string{"10.244.0.5", "10.244.1.5", "10.244.2.5"}[i])
		f.Cluster.Nodes = append(f.Cluster.Nodes,
			ClusterNode{Name: n, System: f.Nodes[i].System, Address: host, PodCIDRs: []netip.Prefix{pods}})
		f.Cluster.Pods = append(f.Cluster.Pods, Pod{Name: "default/on-" + n, Node: n, Address: pod, Phase: "Running"})
	}
	for i := range f.Cluster.Nodes {
		for j, to := range f.Cluster.Nodes {
			if i != j {
				f.Nodes[i].Routes = append(f.Nodes[i].Routes,
					Route{Destination: to.PodCIDRs[0], NextHop: to.Address, Interface: f.Nodes[i].Interfaces[0].Name})
			}
		}
	}
	f.Cluster.ServiceRanges = []netip.Prefix{prefix("10.96.0.0/16")}
	f.Cluster.Services = []Service{{Name: "default/web", Protocol: "tcp", Port: 80,
		Addresses: []netip.Addr{addr("10.96.0.80")}, Backends: []Backend{
			{Address: netip.MustParseAddrPort("10.244.0.5:8080"), Node: "lin"},
			{Address: netip.MustParseAddrPort("10.244.1.5:8080"), Node: "win"}}}}
	return f
}

// tor takes the nodes' routes to each other away and gives them to the router.
func tor(f *Facts) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if f.clusterNode(n.Name) == nil {
			for _, to := range f.Cluster.Nodes {
				n.Routes = append(n.Routes, Route{Destination: to.PodCIDRs[0], NextHop: to.Address, Interface: "sw0"})
			}
			continue
		}
		n.Mode = "tor"
		n.Routes = slices.DeleteFunc(n.Routes,
			func(r Route) bool { return r.NextHop.IsValid() && r.Destination.Bits() > 0 })
	}
}

func follow(t *testing.T, f *Facts, from, to string) Result {
	t.Helper()
	r, err := Follow(f, Request{From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNothingWrong: every pair of a healthy cluster has a way without a wrong hop, through the machines that it should
// pass.
func TestNothingWrong(t *testing.T) {
	for _, mode := range []string{"host-gateway", "tor"} {
		f := three()
		if mode == "tor" {
			tor(f)
		}
		ends := []string{"on-lin", "on-win", "on-win2", "lin", "win", "win2"}
		for _, from := range ends {
			for _, to := range append(ends, "web:80", "web", "default/web:80", "10.96.0.80:80", "web.default.svc:80",
				"203.0.113.1") {
				r := follow(t, f, from, to)
				if r.First() != nil || r.Unknown() {
					var b strings.Builder
					r.Print(&b)
					t.Errorf("%s: %s", mode, b.String())
				}
				if strings.HasPrefix(to, "web") && len(r.Ways) != 2 {
					t.Errorf("%s to %s: %d ways, want one for each backend", from, to, len(r.Ways))
				}
			}
		}

		want := []string{"win2"}
		if mode == "tor" {
			want = []string{"router", "win2"}
		}
		if via := follow(t, f, "on-win", "on-win2").Ways[0].Via; !slices.Equal(via, want) {
			t.Errorf("%s: via %v, want %v", mode, via, want)
		}
	}
}

// TestFirstWrong breaks one thing at a time.
func TestFirstWrong(t *testing.T) {
	drop := func(n *Node, to string) {
		n.Routes = slices.DeleteFunc(n.Routes, func(r Route) bool { return r.Destination == prefix(to) })
	}
	for _, c := range []struct {
		name, from, to string
		breaks         func(*Facts)
		at, what, who  string
	}{
		{"route deleted", "on-win", "on-win2", func(f *Facts) { drop(f.node("win"), "10.244.2.0/24") }, "win", "route",
			"porthole routes on win"},
		{"route of the answer deleted", "on-win", "on-lin", func(f *Facts) { drop(f.node("lin"), "10.244.1.0/24") },
			"lin", "route", "porthole routes on lin"},
		{"no route at all", "on-lin", "on-win", func(f *Facts) { f.node("lin").Routes = f.node("lin").Routes[2:3] },
			"lin", "route", "porthole routes on lin"},
		{"next hop is another node", "on-lin", "on-win",
			func(f *Facts) { f.node("lin").Routes[3].NextHop = addr("10.0.0.22") }, "lin", "route",
			"porthole routes on lin"},
		{"a worse route of somebody else does not count", "on-lin", "on-win", func(f *Facts) {
			n := f.node("lin")
			n.Routes = append(n.Routes,
				Route{Destination: prefix("10.244.1.0/24"), NextHop: addr("10.0.0.22"), Interface: "eth0", Metric: 50})
		}, "", "", ""},
		{"interface down", "on-lin", "on-win", func(f *Facts) { f.node("lin").Interfaces[0].Up = false }, "lin",
			"route", "porthole routes on lin"},
		{"router lacks a line", "on-win", "on-win2", func(f *Facts) { tor(f); drop(f.node("router"), "10.244.2.0/24") },
			"router", "route", "the administrator of router"},
		{"route deleted while the agent is down", "on-lin", "on-win", func(f *Facts) {
			f.node("lin").Mode, f.node("lin").Unread = "", map[string]string{UnreadMode: "nobody answers"}
			drop(f.node("lin"), "10.244.1.0/24")
		}, "lin", "route", "porthole routes on lin"},
		{"router spreads packets over two nodes", "on-win", "on-win2", func(f *Facts) {
			tor(f)
			n := f.node("router")
			n.Routes = append(n.Routes,
				Route{Destination: prefix("10.244.2.0/24"), NextHop: addr("10.0.0.11"), Interface: "sw0"})
		}, "router", "route", "the administrator of router"},
		{"router did not report", "on-win", "on-win2", func(f *Facts) { tor(f); f.Nodes = f.Nodes[:3] }, "", "", ""},
		{"circle", "on-win", "on-win2",
			func(f *Facts) { tor(f); f.node("router").Routes[3].NextHop = addr("10.0.0.11") }, "router", "route",
			"the administrator of router"},
		{"load balancer removed", "on-win", "web", func(f *Facts) { f.node("win").HNS.Balancers = nil }, "win",
			"service", "porthole kube-proxy on win"},
		{"load balancer lacks a backend", "on-win", "web",
			func(f *Facts) { f.node("win").HNS.Balancers[0].Endpoints = []hns.EndpointID{"five"} }, "win", "service",
			"porthole kube-proxy on win"},
		{"a backend that ended", "on-lin", "web",
			func(f *Facts) { f.Cluster.Services[0].Backends = f.Cluster.Services[0].Backends[:1] }, "lin", "service",
			"kube-proxy on lin"},
		{"no backend is ready", "on-lin", "web", func(f *Facts) { f.Cluster.Services[0].Backends = nil }, "lin",
			"service", "the pods that its selector matches"},
		{"kube-proxy of Linux", "lin", "web", func(f *Facts) { f.node("lin").Services = nil }, "lin", "service",
			"kube-proxy on lin"},
		{"forwarding off for pods", "on-win", "on-lin",
			func(f *Facts) { f.node("win").Interfaces[1].Forwarding = false }, "win", "forwarding",
			"porthole routes on win"},
		{"forwarding off at the far node", "lin", "on-win",
			func(f *Facts) { f.node("win").Interfaces[0].Forwarding = false }, "win", "forwarding",
			"porthole routes on win"},
		{"forwarding of Linux", "on-lin", "on-win", func(f *Facts) { f.node("lin").Interfaces[1].Forwarding = false },
			"lin", "forwarding", "the administrator of lin"},
		{"wrong neighbour", "on-lin", "on-win", func(f *Facts) {
			f.node("lin").Neighbours = []Neighbour{{Address: addr("10.0.0.21"), Interface: "eth0",
				MAC: "02:00:00:00:00:99", State: NeighbourPermanent}}
		}, "lin", "neighbour", "whoever made this permanent entry"},
		{"silent neighbour", "on-lin", "on-win", func(f *Facts) {
			f.node("lin").Neighbours = []Neighbour{{Address: addr("10.0.0.21"), Interface: "eth0",
				State: NeighbourFailed}}
		}, "lin", "neighbour", "win: is it up"},
		{"endpoint gone", "on-lin", "on-win",
			func(f *Facts) { f.node("win").HNS.Endpoints = f.node("win").HNS.Endpoints[1:] }, "win", "endpoint",
			"the CNI plugin on win"},
		{"endpoint in no namespace", "on-win", "on-lin",
			func(f *Facts) { f.node("win").HNS.Endpoints[0].Namespace = "" }, "win", "endpoint",
			"the CNI plugin on win"},
		{"endpoint without policy, to the outside", "on-win", "203.0.113.1",
			func(f *Facts) { f.node("win").HNS.Endpoints[0].Policies = nil }, "win", "policy", "the CNI plugin on win"},
		{"endpoint without policy, to its node", "on-win", "win",
			func(f *Facts) { f.node("win").HNS.Endpoints[0].Policies = nil }, "win", "policy", "the CNI plugin on win"},
		{"exception missing", "on-win", "on-lin", func(f *Facts) {
			f.node("win").HNS.Endpoints[0].Policies[0].Settings = json.RawMessage(`{"Exceptions":["10.96.0.0/16"]}`)
		}, "win", "policy", "the CNI plugin on win"},
		{"no CNI configuration", "on-win", "on-lin", func(f *Facts) {
			f.Cluster.Pods[1].Address, f.Cluster.Pods[1].Phase = netip.Addr{}, "Pending"
			f.node("win").Confs = nil
		}, "default/on-win", "address", "porthole routes on win"},
		{"no pod has the address", "on-win", "10.244.0.77", func(*Facts) {}, "lin", "pod", "whoever gave the address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := three()
			c.breaks(f)
			r := follow(t, f, c.from, c.to)

			var b strings.Builder
			r.Print(&b)
			first := r.First()
			switch {
			case first == nil && c.at != "":
				t.Errorf("nothing is wrong:\n%s", b.String())
			case first != nil && (first.At != c.at || first.What != c.what ||
				!strings.HasPrefix(first.Wrong.Who, c.who)):
				t.Errorf("want %s, %s, made by %s:\n%s", c.at, c.what, c.who, b.String())
			case c.name == "router did not report" && !r.Unknown():
				t.Errorf("a router without facts is known:\n%s", b.String())
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, to := range []string{"nobody", "web:81", "web:http", "10.96.0.80:0"} {
		if r, err := Follow(three(), Request{From: "on-win", To: to}); err == nil {
			t.Errorf("%s is understood: %+v", to, r)
		}
	}
	for to, found := range map[string]string{"10.96.0.99:80": "no service has the address",
		"10.96.0.80:81": "service default/web has no port 81/tcp"} {
		if h := follow(t, three(), "on-win", to).First(); h == nil || h.At != "win" || h.What != "service" ||
			!strings.Contains(h.Wrong.Found, found) {
			t.Errorf("%s: %+v, want %q", to, h, found)
		}
	}
}
