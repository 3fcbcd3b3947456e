package nb

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/podranges"
)

// Wanted is what the database must hold.
type Wanted struct {
	Objects   []Object
	Addresses map[string]ovnet.Address // of pods, by Pod.Key
	Subnets   map[string]netip.Prefix
	Problems  []Problem
}

// Object is one row.
type Object struct {
	Table, Key string
	// Columns are those that are ours: a string, a Texts, a Merged or an Exact.
	Columns map[string]any
	// Parents are the rows that refer to this one.
	Parents []Parent
}

// Parent is a column of references in another row.
type Parent struct{ Table, Key, Column string }

// Texts is a set of strings, Exact a map of which every key is ours, Merged one of which only the named keys are.
type (
	Texts  []string
	Exact  map[string]string
	Merged map[string]string
)

func (w *Wanted) add(o Object) { w.Objects = append(w.Objects, o) }

// Count returns how many rows of a table are wanted.
func (w *Wanted) Count(table string) int {
	n := 0
	for _, o := range w.Objects {
		if o.Table == table {
			n++
		}
	}
	return n
}

func (w *Wanted) problem(kind, key, reason, format string, args ...any) {
	w.Problems = append(w.Problems, Problem{kind, key, reason, fmt.Sprintf(format, args...)})
}

// Want returns what the database must hold for a cluster. seen is what it holds now: a pod whose port is there keeps
// its address, also if the annotation was never written.
func Want(f Facts, seen Rows) Wanted {
	w := Wanted{Addresses: map[string]ovnet.Address{}, Subnets: map[string]netip.Prefix{}}
	w.add(Object{Table: "Logical_Router", Key: RouterName, Columns: map[string]any{"name": RouterName}})
	w.add(Object{Table: "Load_Balancer_Group", Key: GroupName, Columns: map[string]any{"name": GroupName}})

	nodes := w.usable(f, seen)
	for _, n := range nodes {
		w.node(n, gateway(n, nodes))
	}
	w.pods(f.Pods, nodes, seen)
	for _, s := range f.Services {
		w.service(s)
	}
	return w
}

// usable returns the nodes with the ranges that OVN has to use, by name. Of two that overlap one gets nothing: OVN
// accepts both and sends the packets of one to the other. A range that pods alone tell loses against those of Node
// objects, and of the others the one goes first that its switch has already. A node that keeps an earlier range is a
// problem meanwhile; one that may not gets that of its Node object.
func (w *Wanted) usable(f Facts, seen Rows) []Node {
	all := slices.SortedFunc(slices.Values(f.Nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	before := earlierRanges(all, f.Pods, seen)
	switches := switchesOf(seen)
	claims := claimsOf(f, all, before)
	overlapping := podranges.Settle(claims,
		func(c podranges.Claim) bool { return switches[ovnet.SwitchName(c.Node)].subnet == c.Dst })
	may := map[podranges.Key]bool{}
	for _, c := range claims {
		key := podranges.Key{Node: c.Node, Dst: c.Dst}
		may[key] = overlapping[key] == ""
	}

	var nodes []Node
	for _, n := range all {
		if !n.Subnet.IsValid() {
			continue
		}
		if e := before[n.Name]; may[podranges.Key{Node: n.Name, Dst: e.dst}] {
			w.problem("Node", n.Name, "RangeInUse",
				"the pod range of the node is %s now, and %d of its pods, as %s, have addresses of %s, which OVN keeps until they are gone: "+
					"drain the node (kubectl drain), with the pods of DaemonSets, or give it the old range back",
				n.Subnet.Masked(), e.pods, e.first, e.dst)
			n.Subnet, n.told = e.dst, e.told
		}
		outside := f.Cluster.RefusesRange(n.Name, n.Subnet.Masked())
		overlap := overlapping[podranges.Key{Node: n.Name, Dst: n.Subnet.Masked()}]
		switch {
		case outside != "":
			w.problem("Node", n.Name, "RangeRefused", "%s", outside)
		case overlap != "":
			w.problem("Node", n.Name, "RangesOverlap", "%s: it gets no logical switch", overlap)
		case !n.Subnet.Addr().Is4() || n.Subnet.Bits() > 29:
			w.problem("Node", n.Name, "RangeUnusable", "pod range %s: OVN mode needs an IPv4 range of /29 or larger",
				n.Subnet)
		default:
			nodes = append(nodes, n)
			w.Subnets[n.Name] = n.Subnet.Masked()
		}
	}
	return nodes
}

// gateway returns the node through which packets of the pods of n leave OVN: n itself, or a Linux node for one with
// Windows, chosen by the position among the nodes so that it does not change while they stay. It returns the zero Node
// if there is none.
func gateway(n Node, nodes []Node) Node {
	if !n.Windows {
		return n
	}
	linux := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Windows })
	if len(linux) == 0 {
		return Node{}
	}
	b := n.Subnet.Addr().As4()
	return linux[int(b[2])%len(linux)]
}

// node adds the switch of a node with the ports that are not of pods, and the route for what leaves OVN. A route by
// source has less weight than those to the ranges of the nodes, which are as long.
func (w *Wanted) node(n Node, out Node) {
	name := ovnet.SwitchName(n.Name)
	router := ovnet.RouterAddr(n.Subnet)
	self := ovnet.NodeAddr(n.Subnet)
	from := fromNode
	if n.told {
		from = fromPods
	}
	onSwitch := []Parent{{"Logical_Switch", name, "ports"}}
	onRouter := func(column string) []Parent { return []Parent{{"Logical_Router", RouterName, column}} }

	w.add(Object{Table: "Logical_Switch", Key: name, Columns: map[string]any{
		"name": name,
		"other_config": Merged{"subnet": n.Subnet.Masked().String(),
			"exclude_ips": router.String() + ".." + self.String()},
		"external_ids": Merged{"gateway_ip": netip.PrefixFrom(router, n.Subnet.Bits()).String(), "node": n.Name,
			fromKey: from},
	}})
	w.add(Object{Table: "Logical_Router_Port", Key: routerPort(n.Name), Parents: onRouter("ports"),
		Columns: map[string]any{
			"name": routerPort(n.Name), "mac": ovnet.MACOf(router),
			"networks": Texts{netip.PrefixFrom(router, n.Subnet.Bits()).String()},
		}})
	w.add(Object{Table: "Logical_Switch_Port", Key: switchPort(n.Name), Parents: onSwitch, Columns: map[string]any{
		"name": switchPort(n.Name), "type": "router", "addresses": Texts{"router"},
		"options": Merged{"router-port": routerPort(n.Name)},
	}})

	w.add(Object{Table: "Logical_Switch_Port", Key: ovnet.NodePort(n.Name), Parents: onSwitch, Columns: map[string]any{
		"name": ovnet.NodePort(n.Name), "addresses": Texts{ovnet.MACOf(self) + " " + self.String()},
		"options": Merged{"requested-chassis": n.Name},
	}})
	if out.Name == "" {
		w.problem("Node", n.Name, "NoGateway",
			"pods of a Windows node leave the cluster through a Linux node, and there is none")
		return
	}
	w.add(Object{Table: "Logical_Router_Static_Route", Key: "out-" + name, Parents: onRouter("static_routes"),
		Columns: map[string]any{
			"ip_prefix": n.Subnet.Masked().String(), "policy": "src-ip", "nexthop": ovnet.NodeAddr(out.Subnet).String(),
			"output_port": routerPort(out.Name),
		}})
}

// service adds a load balancer for each protocol of a service. A port without pods refuses connections instead of
// letting them wait.
func (w *Wanted) service(s Service) {
	for _, protocol := range []string{"tcp", "udp", "sctp"} {
		vips := Exact{}
		for _, p := range s.Ports {
			if p.Protocol != protocol {
				continue
			}
			var backends []string
			for _, b := range p.Backends {
				backends = append(backends, b.String())
			}
			slices.Sort(backends)
			for _, vip := range s.VIPs {
				vips[netip.AddrPortFrom(vip, p.Port).String()] = strings.Join(slices.Compact(backends), ",")
			}
		}
		if len(vips) == 0 {
			continue
		}

		key := s.Namespace + "/" + s.Name + " " + protocol
		w.add(Object{Table: "Load_Balancer", Key: key,
			Parents: []Parent{{"Load_Balancer_Group", GroupName, "load_balancer"}}, Columns: map[string]any{
				"name": key, "protocol": protocol, "vips": vips, "options": Merged{"reject": "true"},
			}})
	}
}

// pods adds the port of each pod, and notes its address.
func (w *Wanted) pods(pods []Pod, nodes []Node, seen Rows) {
	ports := portsOf(seen)
	used := map[netip.Addr]string{}
	placed := slices.Clone(pods)
	// Pods that have an address choose before those that need one: those of the database, then those that run with that
	// of their annotation, then others with an annotation, which the pod's author may have written.
	rank := func(p Pod) int {
		switch {
		case ports[ovnet.PodPort(p.Namespace, p.Name)].uid == p.UID:
			return 0
		case p.Given.IP.IsValid() && p.Range.IsValid():
			return 1
		case p.Given.IP.IsValid():
			return 2
		}
		return 3
	}
	slices.SortFunc(placed, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Key(), b.Key()))
	})

	for _, p := range placed {
		i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == p.Node })
		if i < 0 {
			continue // not placed yet, or its node has no range
		}
		subnet := nodes[i].Subnet.Masked()
		at, ok := w.choose(p, subnet, ports[ovnet.PodPort(p.Namespace, p.Name)], used)
		if !ok {
			continue
		}
		used[at.IP] = p.Key()
		w.Addresses[p.Key()] = at
		w.pod(p, nodes[i], at)
	}
}

// pod adds the port of a pod. The database's port_security drops what a pod sends with an address that is not its own.
// The chassis and the UID make sure that only the interface of this pod on its own node becomes the port.
func (w *Wanted) pod(p Pod, n Node, at ovnet.Address) {
	name := ovnet.PodPort(p.Namespace, p.Name)
	both := at.MAC + " " + at.IP.String()
	w.add(Object{Table: "Logical_Switch_Port", Key: name,
		Parents: []Parent{{"Logical_Switch", ovnet.SwitchName(n.Name), "ports"}}, Columns: map[string]any{
			"name": name, "addresses": Texts{both}, "port_security": Texts{both},
			"options":      Merged{"requested-chassis": n.Name, "iface-id-ver": p.UID},
			"external_ids": Merged{"namespace": p.Namespace, "pod": "true", uidKey: p.UID},
		}})
}

// choose returns the IP and MAC address of a pod. The IP address is that of the pod's port in the database, else that
// of its annotation, else a free one; the MAC address follows from it. ok is false if the pod must not have the
// address, and then the problem is noted.
func (w *Wanted) choose(p Pod, subnet netip.Prefix, port seenPort, used map[netip.Addr]string) (at ovnet.Address,
	ok bool) {
	at = p.Given
	if port.uid == p.UID && port.at.IP.IsValid() {
		at = port.at
	}
	if !at.IP.IsValid() {
		ip := free(subnet, used)
		if !ip.IsValid() {
			w.problem("Pod", p.Key(), "NoFreeAddress", "every address of %s, the range of node %s, is in use", subnet,
				p.Node)
			return at, false
		}
		return ovnet.Address{IP: ip, MAC: ovnet.MACOf(ip)}, true
	}

	switch holder := used[at.IP]; {
	case !subnet.Contains(at.IP):
		w.problem("Pod", p.Key(), "AddressOutsideRange",
			"address %s is not in %s, the range of node %s, which has changed: delete the pod so that it is made again",
			at.IP, subnet, p.Node)
		return at, false
	case at.IP.Compare(ovnet.NodeAddr(subnet)) <= 0 || last(subnet, at.IP):
		w.problem("Pod", p.Key(), "AddressReserved",
			"address %s of its annotation belongs to the router, to node %s or to the whole range", at.IP, p.Node)
		return at, false
	case holder != "":
		w.problem("Pod", p.Key(), "AddressInUse",
			"address %s belongs to pod %s: remove the annotation %q of one of them", at.IP, holder, ovnet.Annotation)
		return at, false
	}
	return ovnet.Address{IP: at.IP, MAC: ovnet.MACOf(at.IP)}, true
}

// last reports whether an address is the last one of a range, which is for broadcasts, or outside.
func last(subnet netip.Prefix, a netip.Addr) bool {
	return !subnet.Contains(a) || !subnet.Contains(a.Next())
}

// free returns the first free address behind the highest one in use, and begins again at the start of the range. So an
// address is not used again at once, while others still remember who had it.
func free(subnet netip.Prefix, used map[netip.Addr]string) netip.Addr {
	first := ovnet.NodeAddr(subnet).Next()
	highest := first.Prev()
	for a := range used {
		if subnet.Contains(a) && a.Compare(highest) > 0 {
			highest = a
		}
	}
	for a := highest.Next(); !last(subnet, a); a = a.Next() {
		if used[a] == "" {
			return a
		}
	}
	for a := first; !last(subnet, a); a = a.Next() {
		if used[a] == "" {
			return a
		}
	}
	return netip.Addr{}
}

// seenPort is what the database has of a pod's port.
type seenPort struct {
	uid string
	at  ovnet.Address
}

func portsOf(seen Rows) map[string]seenPort {
	ports := map[string]seenPort{}
	for _, row := range seen["Logical_Switch_Port"] {
		ids := row.Map("external_ids")
		if ids[Mark] == "" || ids[uidKey] == "" {
			continue
		}
		p := seenPort{uid: ids[uidKey]}
		if fields := strings.Fields(strings.Join(row.Texts("addresses"), " ")); len(fields) == 2 {
			p.at.MAC = fields[0]
			p.at.IP, _ = netip.ParseAddr(fields[1])
		}
		ports[row.Text("name")] = p
	}
	return ports
}

func routerPort(node string) string { return "rtos-" + ovnet.SwitchName(node) }
func switchPort(node string) string { return "stor-" + ovnet.SwitchName(node) }
