package facts

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/path"
)

// tables are the rows of a database by table.
type tables map[string]map[ovsdb.UUID]ovsdb.Row

// databaseWait bounds the reading of one database.
const databaseWait = 10 * time.Second

// The columns that are read.
var (
	switchColumns = map[string][]string{
		"Open_vSwitch": {"external_ids"}, "Bridge": {"name", "ports"}, "Port": {"interfaces", "external_ids"},
		"Interface": {"name", "type", "external_ids", "options", "error"},
	}
	northColumns = map[string][]string{
		"NB_Global":           {"options"},
		"Logical_Switch":      {"name", "ports", "acls", "load_balancer", "load_balancer_group"},
		"Logical_Switch_Port": {"name", "type", "addresses", "options", "enabled"},
		"ACL":                 {"name", "direction", "priority", "match", "action", "options"},
		"Port_Group":          {"name", "ports", "acls"},
		"Address_Set":         {"name", "addresses"},
		"Logical_Router": {"name", "ports", "static_routes", "policies", "nat", "load_balancer",
			"load_balancer_group"},
		"Logical_Router_Port":         {"name", "networks"},
		"Logical_Router_Static_Route": {"ip_prefix", "nexthop", "output_port", "policy"},
		"Load_Balancer":               {"name", "protocol", "vips"},
		"Load_Balancer_Group":         {"name", "load_balancer"},
	}
	southColumns = map[string][]string{
		"Port_Binding": {"logical_port", "chassis"}, "Chassis": {"name", "hostname", "encaps"}, "Encap": {"type", "ip"},
	}
)

// readOVN reads Open vSwitch of this node, if the node is of the mode ovn, and OVN's databases, if they are given. A
// node whose agent does not tell the mode is of the mode ovn if its Open vSwitch has the node's own port.
func readOVN(ctx context.Context, n *path.Node, o Options) (ovs, ovn error) {
	if (n.Mode == "ovn" || n.Mode == "") && o.OVS != "" {
		rows, err := readDatabase(ctx, o.OVS, "Open_vSwitch", switchColumns)
		switch {
		case n.Mode == "ovn":
			ovs = err
			n.OVS = ovsOf(rows)
		case err == nil && ovsOf(rows).HasPort(ovnet.NodePort(n.Name)):
			n.OVS = ovsOf(rows)
		}
		if err != nil {
			n.OVS = nil
		}
	}
	if o.NB == "" || o.SB == "" {
		return ovs, nil
	}

	north, err := readDatabase(ctx, o.NB, "OVN_Northbound", northColumns)
	if err != nil {
		return ovs, err
	}
	south, err := readDatabase(ctx, o.SB, "OVN_Southbound", southColumns)
	if err != nil {
		return ovs, err
	}
	n.OVN = ovnOf(north, south)
	return ovs, nil
}

// readDatabase reads tables once: it subscribes, takes what comes first, and ends the connection.
func readDatabase(ctx context.Context, address, database string, columns map[string][]string) (tables, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseWait)
	defer cancel()
	client, err := ovsdb.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	cache, err := client.Monitor(ctx, database, columns, nil)
	if err != nil {
		return nil, err
	}
	return cache.Tables(), nil
}

// ovsOf translates the database of Open vSwitch.
func ovsOf(rows tables) *path.OVS {
	out := &path.OVS{}
	for _, row := range rows["Open_vSwitch"] {
		ids := row.Map("external_ids")
		out.SystemID = ids["system-id"]
		out.EncapIPs = addresses(strings.Split(ids["ovn-encap-ip"], ","))
	}
	for _, bridge := range rows["Bridge"] {
		if bridge.Text("name") != "br-int" {
			continue
		}
		for _, port := range bridge.UUIDs("ports") {
			for _, id := range rows["Port"][port].UUIDs("interfaces") {
				row := rows["Interface"][id]
				i := path.OVSInterface{Name: row.Text("name"), Kind: row.Text("type"),
					Port: row.Map("external_ids")["iface-id"], Error: row.Text("error")}
				// CHASSIS@ADDRESS, with %ADDRESS behind it since OVN 23.09 (controller/encaps.c).
				i.Chassis, _, _ = strings.Cut(rows["Port"][port].Map("external_ids")["ovn-chassis-id"], "@")
				i.Remote, _ = netip.ParseAddr(row.Map("options")["remote_ip"])
				out.Interfaces = append(out.Interfaces, i)
			}
		}
	}
	return out
}

// addresses returns the words that are addresses.
func addresses(words []string) (list []netip.Addr) {
	for _, word := range words {
		if a, err := netip.ParseAddr(strings.TrimSpace(word)); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// ovnOf translates OVN's databases.
func ovnOf(north, south tables) *path.OVN {
	o := &path.OVN{Balancers: map[string]path.Balancer{}, Groups: map[string][]string{}, Sets: map[string][]string{}}
	for _, row := range north["NB_Global"] {
		o.DropsUnmatched = row.Map("options")["default_acl_drop"] == "true"
	}
	for _, row := range north["Address_Set"] {
		o.Sets["$"+row.Text("name")] = row.Texts("addresses")
	}
	for id, row := range north["Load_Balancer"] {
		o.Balancers[string(id)] = balancerOf(row)
	}
	for _, row := range north["Load_Balancer_Group"] {
		o.Groups[row.Text("name")] = row.Texts("load_balancer")
	}
	for _, row := range north["Logical_Switch"] {
		o.Switches = append(o.Switches, switchOf(north, row))
	}
	portGroups(o, north)
	for _, row := range north["Logical_Router"] {
		o.Routers = append(o.Routers, routerOf(north, row))
	}

	// The southbound database tells at which chassis ports are.
	for _, row := range south["Port_Binding"] {
		b := path.Binding{Port: row.Text("logical_port")}
		for _, id := range row.UUIDs("chassis") {
			b.Chassis = south["Chassis"][id].Text("name")
		}
		o.Bindings = append(o.Bindings, b)
	}
	for _, row := range south["Chassis"] {
		c := path.Chassis{Name: row.Text("name"), Host: row.Text("hostname")}
		for _, id := range row.UUIDs("encaps") {
			addr, _ := netip.ParseAddr(south["Encap"][id].Text("ip"))
			c.Ends = append(c.Ends, path.Encap{Kind: south["Encap"][id].Text("type"), Addr: addr})
		}
		o.Chassis = append(o.Chassis, c)
	}
	return o
}

// balancerOf leaves out what is no address with a port, as a load balancer of all ports.
func balancerOf(row ovsdb.Row) path.Balancer {
	b := path.Balancer{Name: row.Text("name"), Protocol: row.Text("protocol"),
		VIPs: map[netip.AddrPort][]netip.AddrPort{}}
	for vip, list := range row.Map("vips") {
		at, err := netip.ParseAddrPort(vip)
		if err != nil {
			continue
		}
		b.VIPs[at] = nil
		for _, text := range strings.Split(list, ",") {
			if backend, err := netip.ParseAddrPort(text); err == nil {
				b.VIPs[at] = append(b.VIPs[at], backend)
			}
		}
	}
	return b
}

// switchOf has the ports, ACLs and load balancers of one switch, which other tables hold by id.
func switchOf(north tables, row ovsdb.Row) path.LogicalSwitch {
	s := path.LogicalSwitch{Name: row.Text("name"), Balancers: row.Texts("load_balancer")}
	for _, id := range row.UUIDs("load_balancer_group") {
		s.Groups = append(s.Groups, north["Load_Balancer_Group"][id].Text("name"))
	}
	for _, id := range row.UUIDs("acls") {
		s.ACLs = append(s.ACLs, aclOf(north["ACL"][id]))
	}
	for _, id := range row.UUIDs("ports") {
		p := north["Logical_Switch_Port"][id]
		port := path.LogicalPort{Name: p.Text("name"), Disabled: p.Text("enabled") == "false"}
		for _, text := range p.Texts("addresses") {
			port.Addresses = append(port.Addresses, addresses(strings.Fields(text))...)
		}
		if p.Text("type") == "router" {
			port.RouterPort = p.Map("options")["router-port"]
		}
		s.Ports = append(s.Ports, port)
	}
	return s
}

// aclOf is one ACL; one for to-lport judges packets that leave the switch.
func aclOf(row ovsdb.Row) path.ACL {
	priority, _ := strconv.Atoi(row.Text("priority"))
	return path.ACL{Name: row.Text("name"), Out: row.Text("direction") == "to-lport",
		Late:     row.Map("options")["apply-after-lb"] == "true",
		Priority: priority, Match: row.Text("match"), Action: row.Text("action")}
}

// portGroups gives each switch the ACLs of the groups that have ports there, and notes the ports of groups.
func portGroups(o *path.OVN, north tables) {
	for _, group := range north["Port_Group"] {
		var ports []string
		for _, id := range group.UUIDs("ports") {
			ports = append(ports, north["Logical_Switch_Port"][id].Text("name"))
		}
		o.Sets["@"+group.Text("name")] = ports
		for i := range o.Switches {
			if !o.Switches[i].HasAny(ports) {
				continue
			}
			for _, id := range group.UUIDs("acls") {
				o.Switches[i].ACLs = append(o.Switches[i].ACLs, aclOf(north["ACL"][id]))
			}
		}
	}
}

// routerOf notes what is not followed in Other.
func routerOf(north tables, row ovsdb.Row) path.LogicalRouter {
	r := path.LogicalRouter{Name: row.Text("name")}
	for _, id := range row.UUIDs("ports") {
		p := north["Logical_Router_Port"][id]
		port := path.RouterPort{Name: p.Text("name")}
		for _, text := range p.Texts("networks") {
			if network, err := netip.ParsePrefix(text); err == nil {
				port.Networks = append(port.Networks, network)
			}
		}
		r.Ports = append(r.Ports, port)
	}

	for _, id := range row.UUIDs("static_routes") {
		s := north["Logical_Router_Static_Route"][id]
		route := path.LogicalRoute{BySource: s.Text("policy") == "src-ip", Port: s.Text("output_port")}
		var errs [2]error
		route.Prefix, errs[0] = prefixOf(s.Text("ip_prefix"))
		route.NextHop, errs[1] = netip.ParseAddr(s.Text("nexthop"))
		if errs[0] != nil || errs[1] != nil {
			r.Other = append(r.Other, fmt.Sprintf("a route for %s via %s", s.Text("ip_prefix"), s.Text("nexthop")))
			continue
		}
		r.Routes = append(r.Routes, route)
	}
	for column, what := range map[string]string{"policies": "policies", "nat": "address translations",
		"load_balancer": "load balancers", "load_balancer_group": "load balancers"} {
		if len(row.UUIDs(column)) > 0 {
			r.Other = append(r.Other, what)
		}
	}
	return r
}

// prefixOf reads a range, or an address as the range of itself.
func prefixOf(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}
