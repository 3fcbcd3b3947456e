package nb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/ovsdb"
)

func node(name, subnet string, windows bool) Node {
	return Node{Name: name, Subnet: netip.MustParsePrefix(subnet), Windows: windows}
}

func pod(name, node string) Pod {
	return Pod{Namespace: "default", Name: name, UID: "uid-" + name, Node: node}
}

func given(p Pod, ip string) Pod {
	a := netip.MustParseAddr(ip)
	p.Given = ovnet.Address{IP: a, MAC: ovnet.MACOf(a)}
	return p
}

// carryOut returns the rows after a plan, as the database would have them: references that the plan makes by name
// become uuids, and rows of tables that are no roots go with their last reference.
func carryOut(t *testing.T, rows Rows, p Plan) Rows {
	t.Helper()
	next := Rows{}
	for table, list := range rows {
		next[table] = map[ovsdb.UUID]ovsdb.Row{}
		for id, row := range list {
			copied := ovsdb.Row{}
			for k, v := range row {
				copied[k] = v
			}
			next[table][id] = copied
		}
	}

	names := map[ovsdb.Named]ovsdb.UUID{}
	for _, op := range p.Ops {
		if op["op"] == "insert" {
			name := ovsdb.Named(fmt.Sprint(op["uuid-name"]))
			names[name] = ovsdb.UUID(fmt.Sprintf("%v-%d", name, len(next[op["table"].(string)])))
		}
	}
	resolve := func(v any) any {
		if n, ok := v.(ovsdb.Named); ok {
			return names[n]
		}
		return v
	}
	for _, op := range p.Ops {
		table := op["table"].(string)
		if next[table] == nil {
			next[table] = map[ovsdb.UUID]ovsdb.Row{}
		}
		switch op["op"] {
		case "insert":
			row := ovsdb.Row{}
			for k, v := range op["row"].(map[string]any) {
				row[k] = wire(v, resolve)
			}
			next[table][names[ovsdb.Named(fmt.Sprint(op["uuid-name"]))]] = row
		case "update":
			for _, row := range selected(next[table], op) {
				for k, v := range op["row"].(map[string]any) {
					row[k] = wire(v, resolve)
				}
			}
		case "delete":
			for id := range selected(next[table], op) {
				delete(next[table], id)
			}
		case "mutate":
			for _, row := range selected(next[table], op) {
				for _, m := range op["mutations"].([]ovsdb.Mutation) {
					mutate(row, m, resolve)
				}
			}
		}
	}

	for child, parent := range parentColumns {
		for id := range next[child] {
			used := false
			for _, row := range next[parent.Table] {
				used = used || slices.Contains(row.UUIDs(parent.Column), id)
			}
			if !used && child != "Load_Balancer" {
				delete(next[child], id)
			}
		}
	}
	return next
}

func selected(rows map[ovsdb.UUID]ovsdb.Row, op ovsdb.Op) map[ovsdb.UUID]ovsdb.Row {
	out := map[ovsdb.UUID]ovsdb.Row{}
	for id, row := range rows {
		match := true
		for _, c := range op["where"].(ovsdb.Where) {
			switch {
			case c.Column == "_uuid":
				match = match && c.Value == id
			case c.Function == "includes":
				match = match && slices.Contains(row.UUIDs(c.Column), c.Value.(ovsdb.Set)[0].(ovsdb.UUID))
			}
		}
		if match {
			out[id] = row
		}
	}
	return out
}

func mutate(row ovsdb.Row, m ovsdb.Mutation, resolve func(any) any) {
	var list []any
	for _, id := range row.UUIDs(m.Column) {
		list = append(list, []any{"uuid", string(id)})
	}
	for _, v := range m.Value.(ovsdb.Set) {
		id := string(resolve(v).(ovsdb.UUID))
		list = slices.DeleteFunc(list, func(e any) bool { return e.([]any)[1] == id })
		if m.Mutator == "insert" {
			list = append(list, []any{"uuid", id})
		}
	}
	row[m.Column] = []any{"set", list}
}

// wire returns a value as the database sends it.
func wire(v any, resolve func(any) any) any {
	switch v := v.(type) {
	case ovsdb.Set:
		list := []any{}
		for _, e := range v {
			if id, ok := resolve(e).(ovsdb.UUID); ok {
				list = append(list, []any{"uuid", string(id)})
			} else {
				list = append(list, e)
			}
		}
		return []any{"set", list}
	case ovsdb.Map:
		list := []any{}
		for k, e := range v {
			list = append(list, []any{k, e})
		}
		return []any{"map", list}
	}
	return v
}

func cluster() Facts {
	return Facts{
		Nodes: []Node{node("lin01", "10.244.1.0/24", false), node("WIN01", "10.244.21.0/24", true)},
		Pods:  []Pod{pod("a", "lin01"), pod("b", "WIN01")},
		Services: []Service{{Namespace: "default", Name: "web", VIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
			Ports: []Port{
				{Protocol: "tcp", Port: 80, Backends: []netip.AddrPort{netip.MustParseAddrPort("10.244.1.3:8080")}}}}},
	}
}

// made returns the rows of a cluster, after a second plan has found nothing to do.
func made(t *testing.T, f Facts) Rows {
	t.Helper()
	rows := carryOut(t, Rows{}, MakePlan(Want(f, Rows{}), Rows{}))
	if again := MakePlan(Want(f, rows), rows); len(again.Ops) > 0 {
		t.Fatalf("a second plan is not empty:\n%s", again)
	}
	return rows
}

func expect(t *testing.T, plan Plan, want string) {
	t.Helper()
	if got := plan.String(); got != strings.TrimLeft(want, "\n") {
		t.Errorf("plan:\n%s\nwant:%s", got, want)
	}
}

func TestNothingToDo(t *testing.T) {
	rows := made(t, cluster())
	if n := len(rows["Logical_Switch_Port"]); n != 6 { // two of each node, two pods
		t.Errorf("%d switch ports, want 6", n)
	}
}

func TestPlans(t *testing.T) {
	rows := made(t, cluster())
	for name, c := range map[string]struct {
		change func(*Facts)
		want   string
		gone   string
	}{
		"pod added": {func(f *Facts) { f.Pods = append(f.Pods, pod("c", "lin01")) }, `
insert Logical_Switch_Port default_c addresses=[0a:58:0a:f4:01:04 10.244.1.4] external_ids={namespace:default pod:true pod-uid:uid-c porthole:default_c} name=default_c options={iface-id-ver:uid-c requested-chassis:lin01} port_security=[0a:58:0a:f4:01:04 10.244.1.4]
link Logical_Switch lin01 ports+=default_c
`, ""},
		"pod gone": {func(f *Facts) { f.Pods = f.Pods[:1] }, `
delete Logical_Switch_Port default_b
`, ""},
		"another pod of that name, on another node": {func(f *Facts) { f.Pods[0] = Pod{Namespace: "default", Name: "a", UID: "new", Node: "WIN01"} }, `
update Logical_Switch_Port default_a addresses=[0a:58:0a:f4:15:04 10.244.21.4] external_ids={namespace:default pod:true pod-uid:new porthole:default_a} options={iface-id-ver:new requested-chassis:WIN01} port_security=[0a:58:0a:f4:15:04 10.244.21.4]
link Logical_Switch win01 ports+=default_a
unlink Logical_Switch lin01 ports-=default_a
`, ""},
		"another pod of that name, on a new node": {func(f *Facts) {
			f.Nodes = append(f.Nodes, node("lin02", "10.244.2.0/24", false))
			f.Pods[0] = Pod{Namespace: "default", Name: "a", UID: "new", Node: "lin02"}
		}, `
update Logical_Router_Static_Route out-win01 nexthop=10.244.2.2 output_port=rtos-lin02
insert Logical_Switch lin02 external_ids={gateway_ip:10.244.2.1/24 node:lin02 porthole:lin02 range_from:node} name=lin02 other_config={exclude_ips:10.244.2.1..10.244.2.2 subnet:10.244.2.0/24}
insert Logical_Router_Port rtos-lin02 external_ids={porthole:rtos-lin02} mac=0a:58:0a:f4:02:01 name=rtos-lin02 networks=[10.244.2.1/24]
insert Logical_Switch_Port stor-lin02 addresses=[router] external_ids={porthole:stor-lin02} name=stor-lin02 options={router-port:rtos-lin02} type=router
insert Logical_Switch_Port k8s-lin02 addresses=[0a:58:0a:f4:02:02 10.244.2.2] external_ids={porthole:k8s-lin02} name=k8s-lin02 options={requested-chassis:lin02}
insert Logical_Router_Static_Route out-lin02 external_ids={porthole:out-lin02} ip_prefix=10.244.2.0/24 nexthop=10.244.2.2 output_port=rtos-lin02 policy=src-ip
update Logical_Switch_Port default_a addresses=[0a:58:0a:f4:02:03 10.244.2.3] external_ids={namespace:default pod:true pod-uid:new porthole:default_a} options={iface-id-ver:new requested-chassis:lin02} port_security=[0a:58:0a:f4:02:03 10.244.2.3]
link Logical_Router porthole ports+=rtos-lin02
link Logical_Router porthole static_routes+=out-lin02
unlink Logical_Switch lin01 ports-=default_a
`, ""},
		"node gone": {func(f *Facts) { f.Nodes, f.Pods = f.Nodes[:1], f.Pods[:1] }, `
delete Logical_Switch_Port default_b
delete Logical_Switch_Port k8s-win01
delete Logical_Switch_Port stor-win01
delete Logical_Router_Static_Route out-win01
delete Logical_Router_Port rtos-win01
delete Logical_Switch win01
`, "WIN01"},
		"service without pods": {func(f *Facts) { f.Services[0].Ports[0].Backends = nil }, `
update Load_Balancer default/web tcp vips={10.96.0.20:80:}
`, ""},
		"service gone": {func(f *Facts) { f.Services = nil }, `
delete Load_Balancer default/web tcp
`, ""},
		"range of a node changed": {func(f *Facts) { f.Nodes[0].Subnet = netip.MustParsePrefix("10.244.9.0/24"); f.Pods = f.Pods[1:] }, `
update Logical_Router_Static_Route out-win01 nexthop=10.244.9.2
update Logical_Switch lin01 external_ids={gateway_ip:10.244.9.1/24 node:lin01 porthole:lin01 range_from:node} other_config={exclude_ips:10.244.9.1..10.244.9.2 subnet:10.244.9.0/24}
update Logical_Router_Port rtos-lin01 mac=0a:58:0a:f4:09:01 networks=[10.244.9.1/24]
update Logical_Switch_Port k8s-lin01 addresses=[0a:58:0a:f4:09:02 10.244.9.2]
update Logical_Router_Static_Route out-lin01 ip_prefix=10.244.9.0/24 nexthop=10.244.9.2
delete Logical_Switch_Port default_a
`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := cluster()
			c.change(&f)
			plan := MakePlan(Want(f, rows), rows)
			expect(t, plan, c.want)
			if got := strings.Join(plan.Gone, " "); got != c.gone {
				t.Errorf("chassis to delete: %q, want %q", got, c.gone)
			}

			after := carryOut(t, rows, plan)
			if again := MakePlan(Want(f, after), after); len(again.Ops) > 0 {
				t.Errorf("a second plan is not empty:\n%s", again)
			}
		})
	}
}

// TestRangeInUse: a node whose range has changed keeps the one before while its pods have addresses of it, also if its
// switch was deleted meanwhile; it goes before a node that has the range by now.
func TestRangeInUse(t *testing.T) {
	f := cluster()
	rows := made(t, f)
	before := f.Nodes[0].Subnet
	f.Nodes[0].Subnet = netip.MustParsePrefix("10.244.9.0/24")
	refused := func(w Wanted, rows Rows) {
		t.Helper()
		if w.Subnets["lin01"] != before || len(w.Problems) != 1 ||
			!strings.HasPrefix(w.Problems[0].String(),
				"Node lin01: RangeInUse: the pod range of the node is 10.244.9.0/24 now, and 1 of its pods, as default/a,") {
			t.Errorf("range %s, problems %v", w.Subnets["lin01"], w.Problems)
		}
		if p := MakePlan(w, rows); len(rows) > 0 && len(p.Ops) > 0 {
			t.Errorf("changes while a pod holds the range:\n%s", p)
		}
	}
	refused(Want(f, rows), rows)

	running := given(f.Pods[0], "10.244.1.3")
	running.Range = before
	again := f
	again.Pods = []Pod{running}
	refused(Want(again, Rows{}), Rows{})
	running.Range = netip.Prefix{} // it was never attached
	again.Pods = []Pod{running}
	if w := Want(again, Rows{}); w.Subnets["lin01"] != f.Nodes[0].Subnet {
		t.Errorf("an annotation alone holds the range %s", w.Subnets["lin01"])
	}

	f.Nodes = append(f.Nodes, node("lin02", before.String(), false))
	w := Want(f, rows)
	if _, has := w.Subnets["lin02"]; has || w.Subnets["lin01"] != before || len(w.Problems) != 2 ||
		w.Problems[1].Key != "lin02" || w.Problems[1].Reason != "RangesOverlap" {
		t.Errorf("ranges %v, problems %v", w.Subnets, w.Problems)
	}
	f.Nodes, f.Pods = f.Nodes[:2], f.Pods[1:]
	if w := Want(f, rows); w.Subnets["lin01"] != f.Nodes[0].Subnet || len(w.Problems) > 0 {
		t.Errorf("without the pod: %v, %v", w.Subnets, w.Problems)
	}
}

// Rows of others stay, in our switches too.
func TestForeignRows(t *testing.T) {
	rows := made(t, cluster())
	rows["Logical_Switch_Port"]["foreign"] = ovsdb.Row{"name": "theirs"}
	for _, row := range rows["Logical_Switch"] {
		if row.Text("name") == "lin01" {
			mutate(row, ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ovsdb.Set{ovsdb.UUID("foreign")}},
				func(v any) any { return v })
		}
	}
	rows["Logical_Switch"]["other"] = ovsdb.Row{"name": "other"}
	if plan := MakePlan(Want(cluster(), rows), rows); len(plan.Ops) > 0 {
		t.Errorf("rows of others are changed:\n%s", plan)
	}
}

func TestProblems(t *testing.T) {
	for want, f := range map[string]Facts{
		"Node b: RangesOverlap: pod range 10.244.1.128/25 of node b overlaps 10.244.1.0/24 of node a, which keeps its route": {Nodes: []Node{node("a", "10.244.1.0/24", false), node("b", "10.244.1.128/25", false)}},
		"Node a: RangeUnusable": {Nodes: []Node{node("a", "10.244.1.0/30", false)}},
		"Node w: NoGateway":     {Nodes: []Node{node("w", "10.244.1.0/24", true)}},
		"Pod default/y: AddressInUse: address 10.244.1.7 belongs to pod default/x": {
			Nodes: []Node{node("a", "10.244.1.0/24", false)},
			Pods:  []Pod{given(pod("y", "a"), "10.244.1.7"), given(pod("x", "a"), "10.244.1.7")}},
		"Pod default/x: AddressOutsideRange": {Nodes: []Node{node("a", "10.244.1.0/24", false)},
			Pods: []Pod{given(pod("x", "a"), "10.244.2.7")}},
		"Pod default/x: AddressReserved": {Nodes: []Node{node("a", "10.244.1.0/24", false)},
			Pods: []Pod{given(pod("x", "a"), "10.244.1.2")}},
		"Pod default/x: AddressReserved: address 10.244.1.0": {Nodes: []Node{node("a", "10.244.1.0/24", false)},
			Pods: []Pod{given(pod("x", "a"), "10.244.1.0")}},
		"Pod default/x: AddressReserved: address 10.244.1.255": {Nodes: []Node{node("a", "10.244.1.0/24", false)},
			Pods: []Pod{given(pod("x", "a"), "10.244.1.255")}},
		"Pod default/q: NoFreeAddress": {Nodes: []Node{node("a", "10.244.1.0/29", false)},
			Pods: []Pod{pod("m", "a"), pod("n", "a"), pod("o", "a"), pod("p", "a"), pod("q", "a")}},
	} {
		w := Want(f, Rows{})
		if !slices.ContainsFunc(w.Problems, func(p Problem) bool { return strings.HasPrefix(p.String(), want) }) {
			t.Errorf("problems %v, want %q", w.Problems, want)
		}

		for _, o := range w.Objects {
			if strings.HasPrefix(want, "Node b") && o.Table == "Logical_Switch" && o.Key == "b" {
				t.Errorf("node %s has a switch although its range overlaps", o.Key)
			}
		}
	}
}

// An address is not used again at once, and a pod keeps that of its port when the annotation is lost.
func TestAddresses(t *testing.T) {
	f := cluster()
	f.Pods = []Pod{pod("a", "lin01"), pod("b", "lin01"), pod("c", "lin01")}
	rows := made(t, f)
	f.Pods = []Pod{f.Pods[2], pod("d", "lin01")}
	w := Want(f, rows)
	if c, d := w.Addresses["default/c"].IP.String(), w.Addresses["default/d"].IP.String(); c != "10.244.1.5" ||
		d != "10.244.1.6" {
		t.Errorf("pod c has %s and d %s, want 10.244.1.5 and 10.244.1.6", c, d)
	}
}

// TestChosenMAC: a pod has the hardware address that belongs to its address, whatever its annotation or its port says,
// and an address that a pod runs with goes to that one and not to another which only has it in its annotation.
func TestChosenMAC(t *testing.T) {
	f := cluster()
	f.Pods = []Pod{given(pod("a", "lin01"), "10.244.1.7"), given(pod("x", "lin01"), "10.244.1.7")}
	f.Pods[0].Given.MAC = "0a:58:0a:f4:01:01" // the router's
	want := ovnet.Address{IP: netip.MustParseAddr("10.244.1.7"), MAC: "0a:58:0a:f4:01:07"}
	w := Want(f, Rows{})
	if got := w.Addresses["default/a"]; got != want {
		t.Errorf("the pod has %v, want %v", got, want)
	}

	rows := carryOut(t, Rows{}, MakePlan(w, Rows{}))
	for _, row := range rows["Logical_Switch_Port"] {
		if row.Text("name") == "default_a" {
			row["addresses"] = "0a:58:0a:f4:01:01 10.244.1.7" // of a controller that believed it
		}
	}
	w = Want(f, rows)
	if got := w.Addresses["default/a"]; got != want || len(MakePlan(w, rows).Ops) != 1 {
		t.Errorf("the pod keeps %v, want %v; plan:\n%s", got, want, MakePlan(w, rows))
	}

	f.Pods[1].Range = f.Nodes[0].Subnet // x runs with it
	w = Want(f, Rows{})
	if _, taken := w.Addresses["default/a"]; taken || w.Addresses["default/x"] != want {
		t.Errorf("addresses %v", w.Addresses)
	}
}
