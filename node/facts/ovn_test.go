package facts

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/path"
)

// recorded reads the rows of a database as OVN 23.03 and Open vSwitch 3.1 had them: two nodes, pod a on n1, pod c on
// n2, and a service.
func recorded(t *testing.T, name string) tables {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows tables
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// named returns a row, with its id, that has this value in a column. It returns zero values if there is none.
func named(rows map[ovsdb.UUID]ovsdb.Row, column, value string) (ovsdb.UUID, ovsdb.Row) {
	for id, row := range rows {
		if row.Text(column) == value {
			return id, row
		}
	}
	return "", nil
}

// TestRecordedRows follows a packet by rows that OVN had, also by rows that others changed.
func TestRecordedRows(t *testing.T) {
	set := func(ids ...ovsdb.UUID) []any {
		var list []any
		for _, id := range ids {
			list = append(list, []any{"uuid", string(id)})
		}
		return []any{"set", list}
	}
	group := func(action, match string) func(north, _ tables) {
		return func(north, _ tables) {
			port, _ := named(north["Logical_Switch_Port"], "name", "default_c")
			north["ACL"] = map[ovsdb.UUID]ovsdb.Row{"acl": {"name": "web only", "direction": "to-lport",
				"priority": 1001.0, "match": match, "action": action, "options": []any{"map", []any{}}}}
			north["Port_Group"] = map[ovsdb.UUID]ovsdb.Row{"group": {"name": "pg", "ports": set(port),
				"acls": set("acl")}}
			north["Address_Set"] = map[ovsdb.UUID]ovsdb.Row{"as": {"name": "as",
				"addresses": []any{"set", []any{"10.244.1.0/24", "10.1.0.0/16"}}}}
		}
	}

	for _, c := range []struct {
		name, to string
		change   func(north, south tables)
		at, what string
		says     []string
	}{
		{"as it was", "c:8080", nil, "", "",
			[]string{"default_a of switch n1 is interface ovn", "network 10.244.2.0/24, by port rtos-n2",
				"ovn-n2-0: geneve to 10.99.0.12, chassis n2", "default_c of switch n2"}},
		{"the service", "web", nil, "", "",
			[]string{"load balancer default/web tcp of switch n1 (10.96.0.20:80/tcp) -> 10.244.2.3:8080"}},
		{"to the outside", "203.0.113.1", nil, "", "",
			[]string{"route of packets from 10.244.1.0/24 via 10.244.1.2, by port rtos-n1"}},
		{"an ACL of a port group", "c:8080", group("drop", "outport == @pg && ip4.src == $as"), "n1", "acl",
			[]string{"ACL web only of switch n2, priority 1001"}},
		{"an ACL that is for others", "c:8080", group("drop", "outport == @pg && ip4.src != 10.244.1.0/24"), "", "",
			nil},
		{"the port is nowhere", "c:8080", func(_, south tables) {
			_, row := named(south["Port_Binding"], "logical_port", "default_c")
			row["chassis"] = set()
		}, "n2", "binding", []string{"is at no chassis"}},
		{"the chassis has another address", "c:8080", func(_, south tables) {
			_, row := named(south["Encap"], "ip", "10.99.0.12")
			row["ip"] = "10.99.0.99"
		}, "n1", "tunnel", []string{"geneve to 10.99.0.99, as chassis n2 says"}},
		{"the router has policies", "c:8080", func(north, _ tables) {
			_, row := named(north["Logical_Router"], "name", "porthole")
			row["policies"] = set("policy")
		}, "", "", []string{"router porthole has policies"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			north, south := recorded(t, "northbound"), recorded(t, "southbound")
			if c.change != nil {
				c.change(north, south)
			}

			r, err := path.Follow(factsAround(ovsOf(recorded(t, "openvswitch-n1")),
				ovsOf(recorded(t, "openvswitch-n2")), ovnOf(north, south)), path.Request{From: "a", To: c.to})
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := r.Print(&b); err != nil {
				t.Fatal(err)
			}
			if h := r.First(); h != nil && (h.At != c.at || h.What != c.what) || h == nil && c.at != "" {
				t.Errorf("want a wrong %q at %q:\n%s", c.what, c.at, b.String())
			}
			for _, want := range c.says {
				if !strings.Contains(b.String(), want) {
					t.Errorf("want %q in\n%s", want, b.String())
				}
			}
		})
	}
}

// factsAround completes the rows by what else the two nodes and the API say.
func factsAround(n1, n2 *path.OVS, o *path.OVN) *path.Facts {
	node := func(name, addr, own string, ovs *path.OVS) path.Node {
		prefix := netip.MustParsePrefix
		return path.Node{Name: name, System: "linux", Mode: "ovn", OVS: ovs,
			Interfaces: []path.Interface{{Name: "br-ex", Up: true, Forwarding: true,
				Addresses: []netip.Prefix{prefix(addr + "/24")}},
				{Name: "k8s-" + name, Up: true, Forwarding: true, Addresses: []netip.Prefix{prefix(own)}}},
			Routes: []path.Route{{Destination: prefix("10.99.0.0/24"), Interface: "br-ex"},
				{Destination: prefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("10.99.0.1"), Interface: "br-ex"}}}
	}
	f := &path.Facts{Nodes: []path.Node{node("n1", "10.99.0.11", "10.244.1.2/24", n1),
		node("n2", "10.99.0.12", "10.244.2.2/24", n2)}}
	f.Nodes[0].OVN = o
	for name, addr := range map[string]string{"n1": "10.99.0.11", "n2": "10.99.0.12"} {
		f.Cluster.Nodes = append(f.Cluster.Nodes,
			path.ClusterNode{Name: name, System: "linux", Address: netip.MustParseAddr(addr),
				PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244." + name[1:] + ".0/24")}})
	}
	f.Cluster.Pods = []path.Pod{{Name: "default/a", Node: "n1", Address: netip.MustParseAddr("10.244.1.3"),
		Phase: "Running"}, {Name: "default/c", Node: "n2", Address: netip.MustParseAddr("10.244.2.3"),
		Phase: "Running"}}
	f.Cluster.Services = []path.Service{{Name: "default/web", Protocol: "tcp", Port: 80,
		Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
		Backends:  []path.Backend{{Address: netip.MustParseAddrPort("10.244.2.3:8080"), Node: "n2"}}}}
	return f
}
