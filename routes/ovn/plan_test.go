package ovn

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// Row 1.48.
func TestCheckEncap(t *testing.T) {
	for list, want := range map[string]string{
		"geneve": "", "vxlan": "", "geneve,vxlan": "",
		"stt": "use geneve", "geneve,stt": "no packet passes", "gre": "OVN knows geneve and vxlan", "": "OVN knows",
	} {
		err := CheckEncap(list)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error that says %q", list, err, want)
		}
	}
}

func TestPodMTU(t *testing.T) {
	for kinds, want := range map[string]int{"geneve": 1442, "vxlan": 1450, "vxlan,geneve": 1442} {
		if got := PodMTU(1500, kinds); got != want {
			t.Errorf("%s: %d, want %d", kinds, got, want)
		}
	}
}

var (
	options = Options{Node: "worker-1", Addr: netip.MustParseAddr("10.99.0.11"),
		Cluster:  netip.MustParsePrefix("10.244.0.0/16"),
		Services: netip.MustParsePrefix("10.96.0.0/16"), Remote: "tcp:10.99.0.10:6642", EncapType: "geneve",
		Datapath: "system"}
	nodes = []table.Node{
		{Name: "worker-1", Addr: netip.MustParseAddr("10.99.0.11"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}},
		{Name: "worker-2", Addr: netip.MustParseAddr("10.99.0.12"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24")}},
		{Name: "worker-3", Addr: netip.MustParseAddr("10.99.0.13"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}},
	}
)

// settled is a node on which everything is right, with a tunnel to worker-2.
func settled() Seen {
	return Seen{
		Keys: missingKeys(options, nodes, Seen{}), MTU: 1500, Datapaths: []string{"netdev", "system"},
		Bridges: map[string]Bridge{"br-int": {Ports: map[string]Interface{
			"k8s-worker-1": {Kind: "internal", MAC: "0a:58:0a:f4:01:02", ID: "k8s-worker-1"},
			"ovn-worker-0": {Kind: "geneve", Chassis: "worker-2", Remote: "10.99.0.12"},
		}}},
		Links: map[string]Link{"k8s-worker-1": {Up: true, MAC: "0a:58:0a:f4:01:02", MTU: 1442,
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.244.1.2/24")}}},
		Routes: []table.Route{
			{Dst: options.Cluster, NextHop: netip.MustParseAddr("10.244.1.1"), Ours: true},
			{Dst: options.Services, NextHop: netip.MustParseAddr("10.244.1.1"), Ours: true},
		},
	}
}

// TestTunnels: nodes whose names begin alike are told apart.
func TestTunnels(t *testing.T) {
	p := makePlan(options, nodes, settled())
	if len(p.Ops) > 0 {
		t.Errorf("changes of a node that is right: %v", p.Ops)
	}
	states := map[string]table.State{}
	for _, w := range p.Wanted {
		states[w.Dst.String()] = w.State
	}
	for dst, want := range map[string]table.State{"10.244.2.0/24": table.Present, "10.244.3.0/24": table.Waiting,
		"10.244.0.0/16": table.Present} {
		if states[dst] != want {
			t.Errorf("%s is %q, want %q", dst, states[dst], want)
		}
	}
}

// TestRepairs: what differs is put back, by the change that it takes and no other.
func TestRepairs(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Seen)
		want  []string
	}{
		"another id of the system": {func(s *Seen) { s.Keys = map[string]string{} }, []string{"set keys"}},
		"no port of the node": {func(s *Seen) { delete(s.Bridges["br-int"].Ports, "k8s-worker-1") },
			[]string{"add port k8s-worker-1"}},
		"a port of an earlier range": {func(s *Seen) {
			s.Bridges["br-int"].Ports["k8s-worker-1"] = Interface{Kind: "internal", MAC: "0a:58:0a:f4:07:02",
				ID: "k8s-worker-1"}
		}, []string{"set MAC k8s-worker-1"}},
		"a port for another logical port": {func(s *Seen) {
			s.Bridges["br-int"].Ports["k8s-worker-1"] = Interface{Kind: "internal", MAC: "0a:58:0a:f4:01:02",
				ID: "k8s-other"}
		}, []string{"delete port k8s-worker-1", "add port k8s-worker-1"}},
		"no address": {func(s *Seen) {
			s.Links["k8s-worker-1"] = Link{Up: true, MAC: "0a:58:0a:f4:01:02", MTU: 1442}
		}, []string{"configure k8s-worker-1"}},
		"no route": {func(s *Seen) { s.Routes = s.Routes[1:] },
			[]string{"add route 10.244.0.0/16"}},
		"a smaller MTU of the tunnels": {func(s *Seen) { s.MTU = 1400 },
			[]string{"configure k8s-worker-1 10.244.1.2/24 mtu 1342"}},
	} {
		seen := settled()
		c.spoil(&seen)
		p := makePlan(options, nodes, seen)

		var got []string
		for _, o := range p.Ops {
			got = append(got, o.String())
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRangeInUse: while pods of an earlier range are attached the node keeps that; what is missing of it is put back.
func TestRangeInUse(t *testing.T) {
	moved := slices.Clone(nodes)
	moved[0].PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.9.0/24")}
	seen := settled()
	seen.Bridges["br-int"].Ports["ovn0123456789ab"] = Interface{ID: "default_a",
		Pod: netip.MustParsePrefix("10.244.1.7/24")}
	if p := makePlan(options, moved, seen); len(p.Ops) > 0 {
		t.Errorf("changes while a pod holds the range: %v", p.Ops)
	}
	seen.Routes = seen.Routes[1:]
	if p := makePlan(options, moved, seen); len(p.Ops) != 1 || p.Ops[0].Via != netip.MustParseAddr("10.244.1.1") {
		t.Errorf("a route that is missing while a pod holds the range: %v", p.Ops)
	}

	err := held(seen, moved[0].PodCIDRs[0])
	for _, want := range []string{"10.244.9.0/24 now", "1 pods with addresses of 10.244.1.0/24", "default_a",
		"kubectl drain"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := held(seen, nodes[0].PodCIDRs[0]); err != nil {
		t.Errorf("a pod of the node's range: %v", err)
	}
	delete(seen.Bridges["br-int"].Ports, "ovn0123456789ab")
	var got []string
	for _, o := range makePlan(options, moved, seen).Ops {
		got = append(got, o.String())
	}
	if want := []string{"set MAC k8s-worker-1"}; !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("without the pod: %q, want %q", got, want)
	}
}

// TestUplink: br-ex takes the card's addresses over, from any point at which an earlier pass was killed.
func TestUplink(t *testing.T) {
	o := options
	o.Uplink = "eth1"
	address, other := netip.MustParsePrefix("10.98.0.11/24"), netip.MustParsePrefix("10.98.0.99/24")
	way, newer := HostRoute{Via: netip.MustParseAddr("10.98.0.1"),
		Dst: netip.MustParsePrefix("0.0.0.0/0")},
		HostRoute{Via: netip.MustParseAddr("10.98.0.2"), Dst: netip.MustParsePrefix("0.0.0.0/0")}
	ways := []HostRoute{way}
	card := Link{Up: true, MAC: "02:00:00:00:00:11", MTU: 1500, Addrs: []netip.Prefix{address}, Routes: ways}
	bridge := Bridge{Datapath: "netdev", Addrs: []netip.Prefix{address}, Routes: ways,
		Ports: map[string]Interface{"eth1": {}}}
	for name, c := range map[string]struct {
		spoil func(*Seen)
		want  []string
	}{
		"nothing yet": {func(*Seen) {},
			[]string{"add bridge br-ex of eth1 10.98.0.11/24 default via 10.98.0.1: "}},
		"no card":                    {func(s *Seen) { delete(s.Links, "eth1") }, nil},
		"a card without an address":  {func(s *Seen) { s.Links["eth1"] = Link{Up: true} }, nil},
		"a bridge without interface": {func(s *Seen) { s.Bridges["br-ex"] = bridge }, []string{"prepare uplink eth1"}},
		"the address still at the card": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"] = bridge, Link{Up: true}
		},
			[]string{"prepare uplink eth1", "move address br-ex 10.98.0.11/24 default via 10.98.0.1 from eth1"}},
		"the address at both": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"] = bridge, Link{Up: true, Addrs: card.Addrs, Routes: ways}
		},
			[]string{"prepare uplink eth1", "move address br-ex 10.98.0.11/24 from eth1"}},
		"moved": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{Up: true, Addrs: card.Addrs,
				Routes: ways}, Link{Up: true, Prepared: true}
		}, nil},
		"an interface that is down": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{Addrs: card.Addrs,
				Routes: ways}, Link{Up: true, Prepared: true}
		}, []string{"move address br-ex from eth1"}},
		"an address that somebody replaced": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{Up: true, Addrs: []netip.Prefix{other},
				Routes: ways}, Link{Up: true, Prepared: true}
		}, []string{"remember addresses br-ex 10.98.0.99/24 default via 10.98.0.1: "}},
		"an address that somebody added": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{Up: true,
				Addrs: []netip.Prefix{address, other}, Routes: ways}, Link{Up: true, Prepared: true}
		}, nil},
		"a restarted ovs-vswitchd": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{}, Link{Up: true, Prepared: true}
		}, []string{"move address br-ex 10.98.0.11/24 default via 10.98.0.1 from eth1"}},
		"an address that the card was given": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{Up: true, Addrs: card.Addrs,
				Routes: ways}, Link{Up: true, Prepared: true, Addrs: []netip.Prefix{other}}
		}, []string{"remember addresses br-ex 10.98.0.11/24 10.98.0.99/24 default via 10.98.0.1: "}},
		"a route that was lost": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{Up: true,
				Addrs: card.Addrs}, Link{Up: true, Prepared: true}
		}, []string{"move address br-ex default via 10.98.0.1 from eth1"}},
		"a route that somebody replaced": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"], s.Links["eth1"] = bridge, Link{Up: true, Addrs: card.Addrs,
				Routes: []HostRoute{newer}}, Link{Up: true, Prepared: true}
		}, []string{"remember addresses br-ex 10.98.0.11/24 default via 10.98.0.2: the host has other routes"}},
	} {
		seen := settled()
		seen.Links["eth1"] = card
		c.spoil(&seen)

		var got []string
		for _, op := range makePlan(o, nodes, seen).Ops {
			got = append(got, op.String())
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRemoval: what the mode wrote is planned to go, in an order in which the node keeps its address; what others
// wrote stays.
func TestRemoval(t *testing.T) {
	o := options
	o.Uplink = "eth1"
	address := netip.MustParsePrefix("10.98.0.11/24")
	way := HostRoute{Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.98.0.1")}
	bridge := Bridge{Addrs: []netip.Prefix{address}, Routes: []HostRoute{way}, Ports: map[string]Interface{"eth1": {}}}
	keys :=
		"delete keys ovn-bridge=br-int ovn-bridge-datapath-type=system ovn-encap-ip=10.99.0.11 ovn-encap-type=geneve ovn-ofctrl-wait-before-clear=2000 ovn-remote=tcp:10.99.0.10:6642"
	for name, c := range map[string]struct {
		spoil func(*Seen)
		want  []string
	}{
		"without br-ex": {func(*Seen) {}, []string{"delete port k8s-worker-1", keys}},
		"another's br-ex": {func(s *Seen) { s.Bridges["br-ex"] = Bridge{Ports: bridge.Ports} },
			[]string{"delete port k8s-worker-1", keys}},
		"another's logical port": {func(s *Seen) {
			s.Bridges["br-int"].Ports["k8s-worker-1"] = Interface{ID: "k8s-other"}
		}, []string{keys}},
		"another's switch": {func(s *Seen) { s.Keys["system-id"] = "worker-7" },
			[]string{"delete port k8s-worker-1"}},
		"a node that is right": {func(s *Seen) {
			s.Bridges["br-ex"], s.Links["br-ex"] = bridge, Link{Up: true, Addrs: bridge.Addrs, Routes: bridge.Routes}
		},
			[]string{"delete port k8s-worker-1", "move address eth1 10.98.0.11/24 default via 10.98.0.1 from br-ex",
				"release uplink eth1", "delete bridge br-ex", keys}},
		"an ovs-vswitchd that is away": {func(s *Seen) { s.Bridges["br-ex"] = bridge },
			[]string{"delete port k8s-worker-1", "move address eth1 10.98.0.11/24 default via 10.98.0.1 from br-ex",
				"release uplink eth1", "delete bridge br-ex", keys}},
		"nothing left": {func(s *Seen) {
			delete(s.Bridges["br-int"].Ports, "k8s-worker-1")
			s.Keys = map[string]string{"system-id": "worker-1", "hostname": "worker-1"}
		}, nil},
	} {
		seen := settled()
		c.spoil(&seen)

		var got []string
		for _, op := range removal(o, seen) {
			got = append(got, op.String())
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAddressChanges: the tunnels follow the address of the Node object, unless another one was chosen. A host that
// does not have it says so, not at once.
func TestAddressChanges(t *testing.T) {
	moved := slices.Clone(nodes)
	moved[0].Addr = netip.MustParseAddr("10.99.0.31")
	seen := settled()
	seen.Addrs = map[netip.Addr]int{moved[0].Addr: 1400}
	m := New(options, nil)
	p := m.Plan(moved, seen)
	if len(p.Ops) != 2 || !strings.HasPrefix(p.Ops[0].String(), "set keys ovn-encap-ip=10.99.0.31") ||
		p.Ops[1].MTU != 1342 || m.MTU() != 1342 {
		t.Errorf("%v, MTU %d", p.Ops, m.MTU())
	}

	for _, c := range []struct {
		name   string
		chosen netip.Addr
		says   string
	}{
		{"the address of the Node object", netip.Addr{},
			"10.99.0.11, the address of its tunnels (the address of its Node object)"},
		{"a chosen one", netip.MustParseAddr("10.98.0.11"),
			"10.98.0.11, the address of its tunnels (--ovn-encap-ip, or --node-ip)"},
	} {
		o := options
		o.EncapIP = c.chosen
		m := New(o, nil)
		if p := m.Plan(nodes, seen); len(p.Problems) > 0 {
			t.Errorf("%s: %q at once", c.name, p.Problems)
		}
		m.endless = m.endless.Add(-endWait)
		if p := m.Plan(nodes, seen); len(p.Problems) != 1 || !strings.Contains(p.Problems[0], c.says) {
			t.Errorf("%s: %q, want %q", c.name, p.Problems, c.says)
		}
		seen := seen
		seen.Addrs = map[netip.Addr]int{o.encap(nodes): 1500}
		if p := m.Plan(nodes, seen); len(p.Problems) > 0 {
			t.Errorf("%s: %q although the host has the address", c.name, p.Problems)
		}
	}
}

// TestConfigurations: on Windows the runtime hands the plugin a pod's DNS, since a pod has that of its endpoint only.
func TestConfigurations(t *testing.T) {
	n, err := network(podnet.Options{PodCIDR: netip.MustParsePrefix("10.244.1.0/24"),
		Cluster: netip.MustParsePrefix("10.244.0.0/16")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for conf, want := range map[*podnet.Conf]bool{&n.WindowsConf: true, &n.LinuxConf: false} {
		var got struct{ Capabilities map[string]bool }
		if err := json.Unmarshal(conf.Data, &got); err != nil || got.Capabilities["dns"] != want {
			t.Errorf("%s: %v, capabilities %v", conf.Name, err, got.Capabilities)
		}
	}
}
