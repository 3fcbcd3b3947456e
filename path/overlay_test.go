package path

import (
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/hns"
)

// overlaid makes the nodes' pods those of an overlay of VNI 4096.
func overlaid(f *Facts) *Facts {
	macs := map[string]string{"lin": "02:00:00:00:aa:11", "win": "00:15:5d:00:aa:21", "win2": "00:15:5d:00:aa:22"}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		self := f.clusterNode(n.Name)
		if self == nil {
			continue
		}

		n.Mode = "vxlan"
		var routes []Route
		for _, r := range n.Routes {
			if !r.NextHop.IsValid() || r.Destination.Bits() == 0 {
				routes = append(routes, r)
			}
		}
		if n.System == "linux" {
			n.Interfaces = append(n.Interfaces,
				Interface{Name: "flannel.4096", MAC: macs[n.Name], Up: true, Forwarding: true, VNI: 4096,
					VXLANPort: 4789,
					Addresses: []netip.Prefix{netip.PrefixFrom(self.PodCIDRs[0].Addr(), 32)}})
		} else {
			n.HNS.Networks[0].Type, n.HNS.Networks[0].RouterMAC = hns.Overlay, hns.NormalMAC(macs[n.Name])
			n.HNS.Networks[0].Subnets = []hns.Subnet{{Prefix: self.PodCIDRs[0], VSID: 4096}}
		}

		for _, to := range f.Cluster.Nodes {
			switch hop := to.PodCIDRs[0].Addr(); {
			case to.Name == n.Name:
			case n.System == "linux":
				routes = append(routes, Route{Destination: to.PodCIDRs[0], NextHop: hop, Interface: "flannel.4096"})
				n.Neighbours = append(n.Neighbours,
					Neighbour{Address: hop, MAC: macs[to.Name], Interface: "flannel.4096", State: NeighbourPermanent})
				n.Forwards = append(n.Forwards, Forward{MAC: macs[to.Name], Interface: "flannel.4096", To: to.Address})
			default:
				n.HNS.Networks[0].RemoteSubnets = append(n.HNS.Networks[0].RemoteSubnets,
					hns.RemoteSubnet{Prefix: to.PodCIDRs[0], Provider: to.Address,
						VSID: 4096, MAC: hns.NormalMAC(macs[to.Name])})
			}
		}
		n.Routes = routes
	}
	return f
}

func TestOverlay(t *testing.T) {
	ends := []string{"on-lin", "on-win", "on-win2", "lin"}
	for _, from := range ends {
		for _, to := range append(ends, "web", "203.0.113.1") {
			if r := follow(t, overlaid(three()), from, to); r.First() != nil || r.Unknown() {
				t.Error(text(r))
			}
		}
	}

	linux := func(change func(*Node)) func(*Facts) { return func(f *Facts) { change(f.node("lin")) } }
	policy := func(change func(*hns.RemoteSubnet)) func(*Facts) {
		return func(f *Facts) { change(&f.node("win").HNS.Networks[0].RemoteSubnets[0]) } // to lin
	}
	for _, c := range []struct {
		name, from, to string
		breaks         func(*Facts)
		at, what       string
		found          string
	}{
		{"route gone", "on-lin", "on-win", linux(func(n *Node) { n.Routes = n.Routes[:3] }), "lin", "route",
			"leave the overlay by route default"},
		{"neighbour gone", "on-lin", "on-win", linux(func(n *Node) { n.Neighbours = nil }), "lin", "neighbour",
			"no neighbour entry for 10.244.1.0"},
		{"neighbour is another", "on-lin", "on-win", linux(func(n *Node) { n.Neighbours[0].MAC = n.Neighbours[1].MAC }),
			"lin", "tunnel", "are sent to 10.0.0.22"},
		{"forwarding entry gone", "on-lin", "on-win", linux(func(n *Node) { n.Forwards = n.Forwards[1:] }), "lin",
			"forwarding", "has no entry for 00:15:5d:00:aa:21"},
		{"forwarding entry of an earlier address", "on-lin", "on-win",
			linux(func(n *Node) { n.Forwards[0].To = addr("10.0.0.99") }), "lin", "tunnel", "are sent to 10.0.0.99"},
		{"router MAC of an earlier network", "on-lin", "on-win",
			func(f *Facts) { f.node("win").HNS.Networks[0].RouterMAC = "00-15-5D-00-BB-21" }, "lin", "tunnel",
			"hardware address 00-15-5D-00-AA-21"},
		{"flannel's defaults", "on-lin", "on-win", linux(func(n *Node) { n.Interfaces[2].VNI = 1 }), "lin", "tunnel",
			"VNI 1, and win has 4096"},
		{"another port", "on-win", "on-lin", linux(func(n *Node) { n.Interfaces[2].VXLANPort = 8472 }), "win", "tunnel",
			"port 4789, and lin listens at 8472"},
		{"policy gone", "on-win", "on-win2", func(f *Facts) { f.node("win").HNS.Networks[0].RemoteSubnets = nil },
			"win", "tunnel", "no RemoteSubnetRoute for 10.244.2.5"},
		{"policy to an earlier address", "on-win", "on-lin",
			policy(func(r *hns.RemoteSubnet) { r.Provider = addr("10.0.0.99") }), "win", "tunnel",
			"are sent to 10.0.0.99"},
		{"policy of the answer", "on-lin", "on-win", policy(func(r *hns.RemoteSubnet) { r.VSID = 5000 }), "win",
			"tunnel", "VNI 5000, and lin has 4096"},
		{"the other node does not answer", "on-lin", "on-win", linux(func(n *Node) {
			n.Neighbours = append(n.Neighbours,
				Neighbour{Address: addr("10.0.0.21"), Interface: "eth0", State: NeighbourFailed})
		}), "lin", "neighbour", "10.0.0.21 does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := overlaid(three())
			c.breaks(f)
			r := follow(t, f, c.from, c.to)
			if h := r.First(); h == nil || h.At != c.at || h.What != c.what ||
				!strings.Contains(h.Wrong.Found, c.found) {
				t.Errorf("want %s, %s: %q in\n%s", c.at, c.what, c.found, text(r))
			}
		})
	}
}

func text(r Result) string {
	var b strings.Builder
	r.Print(&b)
	return b.String()
}

// TestNotKnown: what is not known is never called wrong.
func TestNotKnown(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		change         func(*Facts)
		says           string
	}{
		{"no machine reported", "on-win", "on-lin", func(f *Facts) { f.Nodes = nil }, "run `porthole facts`"},
		{"the far node did not report", "on-win", "on-lin", func(f *Facts) { f.Nodes = f.Nodes[1:] },
			"machine lin did not report"},
		{"OVN", "on-win", "on-lin", func(f *Facts) { f.node("win").Mode = "ovn" }, "porthole facts --ovn-nb"},
		{"another's network, by a router that did not report", "on-lin", "on-win", func(f *Facts) {
			tor(f)
			f.Nodes = f.Nodes[:3]
			for i := range f.Nodes {
				f.Nodes[i].Mode, f.Nodes[i].Unread = "", map[string]string{UnreadMode: "nobody answers"}
			}
		}, "nobody reported the address 10.0.0.1"},
		{"HNS", "on-win", "on-lin", func(f *Facts) {
			f.node("win").HNS, f.node("win").Unread = nil, map[string]string{UnreadHNS: "HNS is stopped"}
		}, "HNS is stopped"},
		{"service rules", "lin", "web", func(f *Facts) {
			f.node("lin").Services, f.node("lin").Unread = nil, map[string]string{UnreadServices: "no nft"}
		}, "no nft"},
		{"neighbours of a VXLAN device", "on-lin", "on-win", func(f *Facts) {
			overlaid(f)
			f.node("lin").Neighbours, f.node("lin").Unread = nil, map[string]string{UnreadNeighbours: "no table"}
		}, "no table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := three()
			c.change(f)

			if r := follow(t, f, c.from, c.to); r.First() != nil || !r.Unknown() || !strings.Contains(text(r), c.says) {
				t.Errorf("want %q and nothing wrong:\n%s", c.says, text(r))
			}
		})
	}
}

// TestHeadless: DNS answers with the pods' own addresses, and nobody translates a port.
func TestHeadless(t *testing.T) {
	f := three()
	f.Cluster.Services[0].Headless, f.Cluster.Services[0].Addresses = true, nil
	for _, to := range []string{"web", "web:8080"} {
		if to == "web:8080" {
			f.Cluster.Services[0].Port = 8080
		}
		if r := follow(t, f, "on-win2", to); len(r.Ways) != 2 || r.First() != nil || r.Unknown() {
			t.Errorf("%s:\n%s", to, text(r))
		}
	}

	f.Cluster.Services[0].Port = 80
	if h := follow(t, f, "on-win2", "web:80").First(); h == nil || h.What != "dns" ||
		!strings.Contains(h.Wrong.Found, "port 80") {
		t.Errorf("port 80 is not translated: %+v", h)
	}
	f.Cluster.Services[0].Backends = nil
	if h := follow(t, f, "on-win2", "web").First(); h == nil || h.What != "dns" {
		t.Errorf("no backend: %+v", h)
	}
}

func TestNodePort(t *testing.T) {
	f := three()
	port := f.Cluster.Services[0]
	port.Addresses, port.NodePort = nil, 30080
	f.Cluster.Services = append(f.Cluster.Services, port)
	rule := f.node("lin").Services[0]
	rule.Address, rule.Port = netip.Addr{}, 30080
	f.node("lin").Services = append(f.node("lin").Services, rule)
	lb := f.node("win").HNS.Balancers[0]
	lb.VIPs, lb.Ports = nil, []hns.Port{{Protocol: hns.TCP, External: 30080, Internal: 8080}}
	f.node("win").HNS.Balancers = append(f.node("win").HNS.Balancers, lb)

	for _, to := range []string{"lin:30080", "10.0.0.11:30080", "win:30080", "10.0.0.21:30080"} {
		if r := follow(t, f, "203.0.113.1", to); len(r.Ways) != 2 || r.First() != nil || r.Unknown() {
			t.Errorf("%s:\n%s", to, text(r))
		}
	}
	if r := follow(t, f, "203.0.113.1", "win2:30080"); r.First() == nil || r.First().At != "win2" ||
		r.First().What != "service" {
		t.Errorf("win2 has no load balancer of the node port:\n%s", text(r))
	}
}

// TestSix: a node and a pod with both families are followed by the family of the destination.
// withSix gives lin and win, and their pods, addresses of IPv6 as well.
func withSix(f *Facts) *Facts {
	six := []netip.Addr{addr("fd00:10::11"), addr("fd00:10::21")}
	pods := []netip.Prefix{prefix("fd00:244:0::/64"), prefix("fd00:244:1::/64")}
	for i := range six {
		f.Cluster.Nodes[i].Others, f.Cluster.Nodes[i].PodCIDRs = []netip.Addr{six[i]},
			append(f.Cluster.Nodes[i].PodCIDRs, pods[i])
		f.Cluster.Pods[i].Others = []netip.Addr{pods[i].Addr().Next().Next().Next()}
		n := &f.Nodes[i]
		n.Interfaces[0].Addresses = append(n.Interfaces[0].Addresses, netip.PrefixFrom(six[i], 64))
		n.Routes = append(n.Routes, Route{Destination: prefix("fd00:10::/64"), Interface: n.Interfaces[0].Name},
			Route{Destination: pods[i], Interface: n.Interfaces[1].Name},
			Route{Destination: pods[1-i], NextHop: six[1-i], Interface: n.Interfaces[0].Name})
	}
	e := &f.node("win").HNS.Endpoints[0]
	e.Addrs = append(e.Addrs, f.Cluster.Pods[1].Others[0])
	e.Policies[0].Settings = []byte(`{"Exceptions":["10.244.0.0/16","fd00:244::/32"]}`)
	e.Policies = append(e.Policies,
		hns.Policy{Type: "SDNRoute", Settings: []byte(`{"DestinationPrefix":"fd00:10::21/128"}`)})
	return f
}

func TestSix(t *testing.T) {
	f := withSix(three())
	for from, to := range map[string]string{"on-lin": f.Cluster.Pods[1].Others[0].String(),
		"on-win": f.Cluster.Pods[0].Others[0].String()} {
		r := follow(t, f, from, to)
		if r.First() != nil || r.Unknown() || !strings.Contains(r.From, "fd00:244:") ||
			!strings.Contains(r.Ways[0].Answer[len(r.Ways[0].Answer)-1].Decides, "fd00:244:") {
			t.Errorf("%s to %s:\n%s", from, to, text(r))
		}
	}
	f.node("win").HNS.Endpoints[0].Policies = nil
	if h := follow(t, f, "on-win", "fd00:10::21").First(); h == nil ||
		!strings.Contains(h.Wrong.Should, "fd00:10::21/128") {
		t.Errorf("the endpoint has no policy for its node: %+v", h)
	}
	f.node("lin").Routes = f.node("lin").Routes[:len(f.node("lin").Routes)-1]
	if h := follow(t, f, "on-lin", f.Cluster.Pods[1].Others[0].String()).First(); h == nil ||
		!strings.Contains(h.Wrong.Should, "fd00:10::21") {
		t.Errorf("the route of IPv6 is gone: %+v", h)
	}
}

func TestNear(t *testing.T) {
	f := three()
	f.Cluster.Services = append(f.Cluster.Services, Service{Name: "shop/outside", ExternalName: "example.org"})
	f.Cluster.Pods = append(f.Cluster.Pods, Pod{Name: "shop/front-7f9c", Node: "lin", Address: addr("10.244.0.9")})
	for _, c := range []struct{ from, to, says string }{
		{"on-wim", "lin", "did you mean default/on-win"},
		{"lim", "win", "did you mean lin, or win"},
		{"front-7f9c", "lin", "did you mean shop/front-7f9c?"},
		{"front", "lin", "did you mean shop/front-7f9c?"},
		{"lin", "wbe:80", "did you mean default/web"},
		{"lin", "shop/web:80", "did you mean default/web"},
		{"lin", "shop/outside", "another name of example.org"},
		{"nothing-like-it-at-all", "lin", "NAMESPACE/NAME"},
	} {
		if _, err := Follow(f, Request{From: c.from, To: c.to}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.says)
		}
	}
}

// TestServiceOfBothFamilies: a frontend has the backends of its own family, by its address and by the node's.
func TestServiceOfBothFamilies(t *testing.T) {
	f := withSix(three())
	web, vip := &f.Cluster.Services[0], addr("fd00:96::80")
	web.Addresses, web.NodePort = append(web.Addresses, vip), 30080
	var backends []netip.AddrPort
	for i, node := range []string{"lin", "win"} {
		b := netip.AddrPortFrom(f.Cluster.Pods[i].Others[0], 8080)
		backends = append(backends, b)
		web.Backends = append(web.Backends, Backend{Address: b, Node: node})
	}
	lin, h := f.node("lin"), f.node("win").HNS
	four := lin.Services[0].Backends
	lin.Services = append(lin.Services, Rule{Address: vip, Protocol: "tcp", Port: 80, Backends: backends, Text: "six"},
		Rule{Protocol: "tcp", Port: 30080, Backends: four, Text: "four"},
		Rule{Protocol: "tcp", Port: 30080, Backends: backends, Text: "six"})
	h.Endpoints = append(h.Endpoints, hns.Endpoint{ID: "five6", Remote: true, Addrs: []netip.Addr{backends[0].Addr()}})
	ports := []hns.Port{{Protocol: hns.TCP, External: 30080, Internal: 8080}}
	h.Balancers = append(h.Balancers,
		hns.LoadBalancer{ID: "1234-6", Endpoints: []hns.EndpointID{"five6", "pod"}, VIPs: []netip.Addr{vip},
			Ports: h.Balancers[0].Ports, IPv6: true},
		hns.LoadBalancer{ID: "1234-7", Endpoints: []hns.EndpointID{"five", "pod"}, Ports: ports},
		hns.LoadBalancer{ID: "1234-8", Endpoints: []hns.EndpointID{"five6", "pod"}, Ports: ports, IPv6: true})

	for _, from := range []string{"on-lin", "on-win"} {
		for _, to := range []string{"10.96.0.80:80", "[fd00:96::80]:80", "10.0.0.11:30080", "[fd00:10::11]:30080",
			"10.0.0.21:30080", "[fd00:10::21]:30080"} {
			r := follow(t, f, from, to)
			if len(r.Ways) != 2 || r.First() != nil || r.Unknown() {
				t.Errorf("%s to %s:\n%s", from, to, text(r))
			}
			for _, way := range r.Ways {
				if six := strings.HasPrefix(to, "["); way.Backend.Addr().Is6() != six {
					t.Errorf("%s to %s: backend %s of the other family", from, to, way.Backend)
				}
			}
		}
	}
}
