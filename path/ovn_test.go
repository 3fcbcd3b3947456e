package path

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// logicalThree is three() in the mode ovn: a switch for each node, one router, and packets to the outside through lin.
func logicalThree() *Facts {
	f := three()
	o := &OVN{Groups: map[string][]string{"porthole": {"web"}}, Sets: map[string][]string{},
		Balancers: map[string]Balancer{"web": {Name: "default/web tcp", Protocol: "tcp",
			VIPs: map[netip.AddrPort][]netip.AddrPort{
				netip.MustParseAddrPort("10.96.0.80:80"): slices.Clone(f.Cluster.Services[0].sorted())}}}}
	router := LogicalRouter{Name: "porthole"}
	for i, c := range f.Cluster.Nodes {
		n := f.node(c.Name)
		gateway := c.PodCIDRs[0].Addr().Next()
		own, pod := gateway.Next(), f.Cluster.Pods[i].Address
		end := netip.AddrFrom4([4]byte{10, 98, 0, c.Address.As4()[3]})

		o.Switches = append(o.Switches, LogicalSwitch{Name: c.Name, Groups: []string{"porthole"}, Ports: []LogicalPort{
			{Name: "stor-" + c.Name, RouterPort: "rtos-" + c.Name},
			{Name: "k8s-" + c.Name, Addresses: []netip.Addr{own}},
			{Name: "default_on-" + c.Name, Addresses: []netip.Addr{pod}}}})
		router.Ports = append(router.Ports, RouterPort{"rtos-" + c.Name, []netip.Prefix{netip.PrefixFrom(gateway, 24)}})
		router.Routes = append(router.Routes,
			LogicalRoute{Prefix: c.PodCIDRs[0], BySource: true, NextHop: addr("10.244.0.2"), Port: "rtos-lin"})
		o.Bindings = append(o.Bindings, Binding{"k8s-" + c.Name, c.Name}, Binding{"default_on-" + c.Name, c.Name},
			Binding{"stor-" + c.Name, ""})
		o.Chassis = append(o.Chassis, Chassis{Name: c.Name, Host: c.Name, Ends: []Encap{{"geneve", end}}})

		n.Mode = ovn
		n.OVS = &OVS{SystemID: c.Name, EncapIPs: []netip.Addr{end},
			Interfaces: []OVSInterface{{Name: "br-int", Kind: "internal"},
				{Name: "k8s-" + c.Name, Kind: "internal", Port: "k8s-" + c.Name},
				{Name: "ovn0102", Port: "default_on-" + c.Name}}}
		for _, to := range f.Cluster.Nodes {
			if to.Name != c.Name {
				n.OVS.Interfaces = append(n.OVS.Interfaces,
					OVSInterface{Name: "ovn-" + to.Name + "-0", Kind: "geneve", Chassis: to.Name,
						Remote: netip.AddrFrom4([4]byte{10, 98, 0, to.Address.As4()[3]})})
			}
		}
		n.Interfaces = append(n.Interfaces[:1], uplink("k8s-"+c.Name, own.String()+"/24", ""),
			uplink("br-ex", end.String()+"/24", ""), Interface{Name: "ovn0102", Up: true})
		n.Routes = append(n.Routes[:2], Route{Destination: prefix("10.98.0.0/24"), Interface: "br-ex"},
			Route{Destination: c.PodCIDRs[0], Interface: "k8s-" + c.Name},
			Route{Destination: prefix("10.244.0.0/16"), NextHop: gateway, Interface: "k8s-" + c.Name},
			Route{Destination: prefix("10.96.0.0/16"), NextHop: gateway, Interface: "k8s-" + c.Name})
		n.Services = nil
		if n.HNS != nil {
			n.HNS.Balancers = nil
		}
	}
	o.Routers = []LogicalRouter{router}
	f.node("lin").OVN = o
	return f
}

func (s Service) sorted() (list []netip.AddrPort) {
	for _, b := range s.Backends {
		list = append(list, b.Address)
	}
	return sortedBackends(list)
}

func TestLogicalNothingWrong(t *testing.T) {
	ends := []string{"on-lin", "on-win", "on-win2", "lin", "win", "win2"}
	for _, from := range ends {
		for _, to := range append(ends, "web", "203.0.113.1") {
			r := follow(t, logicalThree(), from, to)
			if r.First() != nil || r.Unknown() || to == "web" && len(r.Ways) != 2 {
				t.Error(text(r))
			}
		}
	}

	for _, c := range []struct {
		from, to string
		via      []string
		says     []string
	}{
		{"on-win", "on-win2", []string{"win2"},
			[]string{"logical port default_on-win of switch win is interface ovn0102",
				"logical router porthole: network 10.244.2.0/24, by port rtos-win2",
				"ovn-win2-0: geneve to 10.98.0.22, chassis win2", "logical port default_on-win2 of switch win2"}},
		{"on-win", "203.0.113.1", []string{"lin", "router"},
			[]string{"route of packets from 10.244.1.0/24 via 10.244.0.2, by port rtos-lin", "logical port k8s-lin",
				"route default via 10.0.0.1"}},
		{"on-win2", "win", []string{"lin", "win"},
			[]string{"route of packets from 10.244.2.0/24 via 10.244.0.2", "10.0.0.21 is an address of its own"}},
		{"lin", "on-win", []string{"win"},
			[]string{"route 10.244.0.0/16 via 10.244.0.1 dev k8s-lin", "logical port k8s-lin of switch lin",
				"logical port default_on-win of switch win"}},
		{"on-lin", "on-lin", nil, []string{"logical port default_on-lin"}},
	} {
		r := follow(t, logicalThree(), c.from, c.to)
		if !slices.Equal(r.Ways[0].Via, c.via) {
			t.Errorf("via %v, want %v:\n%s", r.Ways[0].Via, c.via, text(r))
		}
		for _, want := range c.says {
			if !strings.Contains(text(r), want) {
				t.Errorf("want %q in\n%s", want, text(r))
			}
		}
	}
}

// TestLogicalFirstWrong breaks one thing of OVN at a time.
func TestLogicalFirstWrong(t *testing.T) {
	at := func(f *Facts) *OVN { return f.node("lin").OVN }
	sw := func(f *Facts, i int) *LogicalSwitch { return &f.node("lin").OVN.Switches[i] }
	drop := ACL{Priority: 1000, Action: "drop", Match: "ip4.dst == 10.244.0.5"}

	for _, c := range []struct {
		name, from, to string
		breaks         func(*Facts)
		at, what       string
		found          string
	}{
		{"no logical port", "on-win", "on-lin", func(f *Facts) { sw(f, 1).Ports = sw(f, 1).Ports[:2] }, "win", "port",
			"no logical port for 10.244.1.5 of pod default/on-win"},
		{"no logical port at the far end", "on-win", "on-lin", func(f *Facts) { sw(f, 0).Ports = sw(f, 0).Ports[:2] },
			"win", "switch", "which pod default/on-lin has"},
		{"another address", "on-win", "on-lin",
			func(f *Facts) { sw(f, 1).Ports[2].Addresses = []netip.Addr{addr("10.244.1.9")} }, "win", "port",
			"and the pod has 10.244.1.5"},
		{"no interface", "on-win", "on-lin", func(f *Facts) { f.node("win").OVS.Interfaces[2].Port = "" }, "win",
			"interface", "no interface with iface-id default_on-win"},
		{"no interface at the far end", "on-win", "on-lin",
			func(f *Facts) { f.node("lin").OVS.Interfaces[2].Port = "" }, "lin", "interface",
			"no interface with iface-id default_on-lin"},
		{"interface that cannot be opened", "on-lin", "on-win",
			func(f *Facts) { f.node("win").OVS.Interfaces[2].Error = "no such device" }, "win", "interface",
			"no such device"},
		{"interface is down", "on-lin", "on-win", func(f *Facts) { f.node("lin").Interfaces[3].Up = false }, "lin",
			"interface", "ovn0102 of lin is down"},
		{"port is disabled", "on-lin", "on-win", func(f *Facts) { sw(f, 1).Ports[2].Disabled = true }, "win", "port",
			"is disabled"},
		{"northd is away", "on-lin", "on-win", func(f *Facts) { at(f).Bindings = at(f).Bindings[:4] }, "win", "binding",
			"the southbound database does not have"},
		{"no chassis", "on-lin", "on-win", func(f *Facts) { at(f).Bindings[4].Chassis = "" }, "win", "binding",
			"is at no chassis"},
		{"another chassis", "on-lin", "on-win", func(f *Facts) { at(f).Bindings[4].Chassis = "win2" }, "win", "binding",
			"at chassis win2"},
		{"two nodes with one id", "on-lin", "on-win", func(f *Facts) { f.node("win2").OVS.SystemID = "win" }, "win",
			"binding", "win and win2 have the same id win"},
		{"no tunnel", "on-lin", "on-win",
			func(f *Facts) { f.node("lin").OVS.Interfaces = f.node("lin").OVS.Interfaces[:3] }, "lin", "tunnel",
			"no tunnel to chassis win"},
		{"tunnel to an earlier address", "on-lin", "on-win",
			func(f *Facts) { f.node("lin").OVS.Interfaces[3].Remote = addr("10.98.0.99") }, "lin", "tunnel",
			"is geneve to 10.98.0.99"},
		{"tunnel of the answer", "on-lin", "on-win", func(f *Facts) { f.node("win").OVS.Interfaces[3].Kind = "vxlan" },
			"win", "tunnel", "is vxlan to 10.98.0.11"},
		{"nobody has the end of the tunnel", "on-lin", "on-win",
			func(f *Facts) { f.node("win").Interfaces[2].Addresses = nil }, "lin", "tunnel",
			"win has no interface with 10.98.0.21"},
		{"no route between the nodes", "on-lin", "on-win",
			func(f *Facts) { f.node("lin").Routes = f.node("lin").Routes[3:] }, "lin", "tunnel",
			"lin has no route to 10.98.0.21"},
		{"switch without a router", "on-lin", "on-win", func(f *Facts) { sw(f, 0).Ports[0].RouterPort = "" }, "lin",
			"switch", "no port to a router"},
		{"router without the range", "lin", "on-win2",
			func(f *Facts) { r := &at(f).Routers[0]; r.Ports, r.Routes = r.Ports[:2], nil }, "lin", "router",
			"no route for packets from 10.244.0.2 to 10.244.2.5"},
		{"no way out", "on-win", "203.0.113.1", func(f *Facts) { at(f).Routers[0].Routes = nil }, "win", "router",
			"no route for packets from 10.244.1.5 to 203.0.113.1"},
		{"the node's route", "lin", "on-win", func(f *Facts) { f.node("lin").Routes = f.node("lin").Routes[:4] }, "lin",
			"route", "do not go into OVN, but by route default"},
		{"the node's own port", "lin", "on-win", func(f *Facts) { f.node("lin").OVS.Interfaces[1].Port = "" }, "lin",
			"route", "do not go into OVN"},
		{"ACL of the sender", "on-win", "on-lin", func(f *Facts) { sw(f, 1).ACLs = []ACL{drop} }, "win", "acl",
			"action drop for packets from 10.244.1.5 to 10.244.0.5"},
		{"ACL of the receiver", "on-win", "on-lin", func(f *Facts) {
			sw(f, 0).ACLs = []ACL{{Out: true, Priority: 1, Action: "reject", Match: `outport == "default_on-lin"`}}
		}, "win", "acl", "action reject"},
		{"ACL behind the load balancer", "on-win", "web",
			func(f *Facts) { late := drop; late.Late = true; sw(f, 1).ACLs = []ACL{late} }, "win", "acl",
			"action drop"},
		{"ACL before the load balancer sees the service", "on-win", "web", func(f *Facts) {
			sw(f, 1).ACLs = []ACL{{Priority: 1, Action: "drop", Match: "ip4.dst == 10.96.0.0/16 && tcp.dst == 80"}}
		}, "win", "acl", "to 10.96.0.80"},
		{"a higher ACL allows", "on-win", "on-lin", func(f *Facts) {
			sw(f, 1).ACLs = []ACL{drop, {Priority: 1001, Action: "allow-related", Match: "ip4"}}
		}, "", "", ""},
		{"ACL of others", "on-win", "on-lin",
			func(f *Facts) { other := drop; other.Match = `inport == "x"`; sw(f, 1).ACLs = []ACL{other} }, "", "", ""},
		{"the default drops", "on-win", "on-lin", func(f *Facts) {
			o := drop
			o.Match = "0"
			sw(f, 1).ACLs, at(f).DropsUnmatched = []ACL{o}, true
		}, "win", "acl", "no ACL of logical switch win allows"},
		{"no load balancer", "on-win", "web", func(f *Facts) { at(f).Balancers = nil }, "win", "service",
			"no load balancer for 10.96.0.80:80/tcp"},
		{"a switch without load balancers", "on-win", "web", func(f *Facts) { sw(f, 1).Groups = nil }, "win", "service",
			"is not one of logical switch win"},
		{"load balancer lacks a backend", "lin", "web", func(f *Facts) {
			vips := at(f).Balancers["web"].VIPs
			for k := range vips {
				vips[k] = vips[k][:1]
			}
		}, "lin", "service", "lacks 10.244.1.5:8080"},
		{"a backend that ends", "on-win", "web",
			func(f *Facts) { f.Cluster.Services[0].Backends[0].Terminating = true }, "win", "service",
			"has 10.244.0.5:8080 too"},
		{"HNS endpoint gone", "on-lin", "on-win", func(f *Facts) { f.node("win").HNS.Endpoints = nil }, "win",
			"endpoint", "no HNS endpoint has the address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := logicalThree()
			c.breaks(f)

			r := follow(t, f, c.from, c.to)
			switch h := r.First(); {
			case h == nil && c.at != "" || r.Unknown():
				t.Errorf("nothing is wrong:\n%s", text(r))
			case h != nil && (h.At != c.at || h.What != c.what || !strings.Contains(h.Wrong.Found, c.found)):
				t.Errorf("want %s, %s, %q:\n%s", c.at, c.what, c.found, text(r))
			}
		})
	}
}

// TestLogicalNotKnown: what is not known is never called wrong.
func TestLogicalNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		says   string
	}{
		"databases": {func(f *Facts) { f.node("lin").OVN = nil }, "--ovn-nb"},
		"databases that are away": {func(f *Facts) {
			f.node("lin").OVN, f.node("lin").Unread = nil, map[string]string{UnreadOVN: "connection refused"}
		}, "connection refused (on lin)"},
		"Open vSwitch": {func(f *Facts) {
			f.node("win").OVS, f.node("win").Unread = nil, map[string]string{UnreadOVS: "no socket"}
		}, "no socket"},
		"Open vSwitch of the far node": {func(f *Facts) { f.node("win2").OVS = nil },
			"Open vSwitch of win2 was not read"},
		"policies of the router": {func(f *Facts) { f.node("lin").OVN.Routers[0].Other = []string{"policies"} },
			"policies"},
		"an ACL": {func(f *Facts) {
			f.node("lin").OVN.Switches[1].ACLs = []ACL{{Match: "tcp.src == 5", Action: "drop"}}
		}, "ovn-trace"},
	} {
		t.Run(name, func(t *testing.T) {
			f := logicalThree()
			c.change(f)
			if r := follow(t, f, "on-win", "on-win2"); r.First() != nil || !r.Unknown() ||
				!strings.Contains(text(r), c.says) {
				t.Errorf("want %q and nothing wrong:\n%s", c.says, text(r))
			}
		})
	}
}

// TestLogicalNodePort: OVN's load balancers serve cluster IPs only.
func TestLogicalNodePort(t *testing.T) {
	f := logicalThree()
	f.Cluster.Services[0].NodePort = 30080
	if h := follow(t, f, "on-win", "10.0.0.11:30080").First(); h == nil || h.At != "lin" || h.What != "service" ||
		!strings.Contains(h.Wrong.Found, "no node serves node ports") {
		t.Errorf("%+v", h)
	}
}
