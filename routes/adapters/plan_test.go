package adapters

import (
	"net/netip"
	"testing"
)

var wanted = Wanted{Node: netip.MustParseAddr("10.99.0.21"), Host: netip.MustParseAddr("10.244.1.2")}

func adapter(id uint64, name string, forwards bool, addrs ...string) Adapter {
	a := Adapter{ID: id, Name: name, Forwarding: forwards}
	for _, text := range addrs {
		a.Addrs = append(a.Addrs, netip.MustParseAddr(text))
	}
	return a
}

func (a Adapter) defaultVia(hop string) Adapter {
	a.Defaults = append(a.Defaults, netip.MustParseAddr(hop))
	return a
}

func TestPlan(t *testing.T) {
	node, host := adapter(1, "vEthernet (Ethernet)", true, "10.99.0.21").
		defaultVia("10.99.0.1"), adapter(2, "vEthernet (porthole_ep)", true, "10.244.1.2")

	for name, c := range map[string]struct {
		list []Adapter
		want string
	}{
		"right": {list: []Adapter{host, node}},
		"other adapters do not count": {
			list: []Adapter{adapter(3, "vEthernet (nat)", false, "172.20.0.1").defaultVia("172.20.0.9"), node, host}},
		"as Windows makes them": {
			list: []Adapter{adapter(2, "vEthernet (porthole_ep)", false, "10.244.1.2"),
				adapter(1, "vEthernet (Ethernet)", false, "10.99.0.21")},
			want: "enable forwarding on vEthernet (Ethernet): it has the node's address 10.99.0.21, and drops what it should forward\n" +
				"enable forwarding on vEthernet (porthole_ep): it has the pods' gateway 10.244.1.2, and drops what it should forward\n",
		},
		"one adapter has both": {
			list: []Adapter{adapter(1, "Ethernet", false, "10.99.0.21", "10.244.1.2").defaultVia("10.99.0.1")},
			want: "enable forwarding on Ethernet: it has the node's address 10.99.0.21, and drops what it should forward\n",
		},
		"a second default route": {
			list: []Adapter{node, host.defaultVia("10.244.1.1")},
			want: "delete default route via 10.244.1.1 on vEthernet (porthole_ep): it came with the host's endpoint, " +
				"and would take the node's own traffic to an address that nobody has\n",
		},
		"none": {want: "problem: no adapter of this host has the node's address 10.99.0.21\n" +
			"problem: no adapter of this host has the pods' gateway 10.244.1.2\n"},
	} {
		if got := MakePlan(wanted, c.list).String(); got != c.want {
			t.Errorf("%s: planned\n%swant\n%s", name, got, c.want)
		}
	}
}

// TestPlanDual: an adapter has settings of its own for IPv6.
func TestPlanDual(t *testing.T) {
	both := wanted
	both.Node6, both.Host6 = netip.MustParseAddr("fd00:10:99::15"), netip.MustParseAddr("fd00:10:244:1::2")
	six := func(a Adapter) Adapter {
		a.Six = true
		return a
	}
	list := []Adapter{
		adapter(1, "vEthernet (Ethernet)", true, "10.99.0.21"),
		adapter(2, "vEthernet (porthole_ep)", true, "10.244.1.2"),
		six(adapter(1, "vEthernet (Ethernet)", true, "fd00:10:99::15").defaultVia("fd00:10:99::1")),
		six(adapter(2, "vEthernet (porthole_ep)", false, "fd00:10:244:1::2").defaultVia("fd00:10:244:1::1")),
	}

	want :=
		"enable forwarding on vEthernet (porthole_ep): it has the pods' gateway fd00:10:244:1::2, and drops what it should forward\n" +
			"delete default route via fd00:10:244:1::1 on vEthernet (porthole_ep): it came with the host's endpoint, and would take the node's own traffic to an address that nobody has\n"
	if got := MakePlan(both, list).String(); got != want {
		t.Errorf("plan\n%s\nwant\n%s", got, want)
	}
	if got := MakePlan(both, list[:2]).
		String(); got != "problem: no adapter of this host has the node's address fd00:10:99::15\nproblem: no adapter of this host has the pods' gateway fd00:10:244:1::2\n" {
		t.Errorf("without addresses of IPv6: %s", got)
	}
	if got := MakePlan(wanted, list[:2]).String(); got != "" {
		t.Errorf("of IPv4 only: %s", got)
	}
}
