package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/routes/table"
)

// Options of the mode on one node.
type Options struct {
	Node     string
	Addr     netip.Addr   // of the node, if its Node object does not tell
	Cluster  netip.Prefix // all pods
	Services netip.Prefix // all services

	Remote   string // OVN's southbound database, as Open vSwitch takes it: tcp:HOST:6642
	Database string // of the host's Open vSwitch, as ovsdb.Dial takes it
	// EncapType is geneve, vxlan or both in order; EncapIP the tunnels' address. Zero: that of the Node object, also
	// when it changes.
	EncapType string
	EncapIP   netip.Addr
	// Datapath is system for the kernel's, netdev for that of ovs-vswitchd.
	Datapath string
	// Uplink is the network card that becomes a port of br-ex, which gets its addresses. Empty: none, because the
	// kernel sends the tunnels.
	Uplink string
}

// encap returns the address of the tunnels.
func (o Options) encap(nodes []table.Node) netip.Addr {
	if o.EncapIP.IsValid() {
		return o.EncapIP
	}
	for _, n := range nodes {
		if n.Name == o.Node && n.Addr.Is4() {
			return n.Addr
		}
	}
	return o.Addr
}

// Bridges of a node.
const (
	integration = "br-int"
	external    = "br-ex"
)

// overheads are the bytes of the headers around a packet of a pod (IPv4 without options, UDP, and Geneve with OVN's
// option or VXLAN, and the inner Ethernet header). Measured with packets that must not be fragmented.
var overheads = map[string]int{"geneve": 58, "vxlan": 50}

// CheckEncap returns an error for a kind of tunnel that cannot work.
func CheckEncap(list string) error {
	for _, kind := range strings.Split(list, ",") {
		switch {
		case kind == "stt":
			return fmt.Errorf(
				"tunnel type stt: Open vSwitch makes such a port without an error and no packet passes: it needs a kernel module that Linux never took in, " +
					"and the datapath of ovs-vswitchd does not have it; use geneve")
		case overheads[kind] == 0:
			return fmt.Errorf("tunnel type %q: OVN knows geneve and vxlan", kind)
		}
	}
	return nil
}

// PodMTU returns the MTU of pods in bytes: packets of that size fit into the underlay's MTU with each kind of tunnel
// in the list.
func PodMTU(underlay int, kinds string) int {
	most := 0
	for _, kind := range strings.Split(kinds, ",") {
		most = max(most, overheads[kind])
	}
	return underlay - most
}

// Seen is what the mode observes of the host.
type Seen struct {
	Keys map[string]string // external_ids of the switch
	// Datapaths are the datapath types that ovs-vswitchd supports. Empty: it has never run with this database.
	Datapaths []string
	// Pending is true while ovs-vswitchd has not carried out the last change of the database. Away is the reason for
	// which it seems not to run; empty if it runs or that is not known.
	Pending bool
	Away    string
	Bridges map[string]Bridge
	// Links are those of this mode, by name: the uplink, br-ex and the node's own port.
	Links map[string]Link
	// Routes are ours, and those of others to the same destinations.
	Routes []table.Route
	// Addrs are the IPv4 addresses of this host, each with the MTU of its link in bytes. Mode.Plan takes End, the
	// address of the tunnels, and MTU from them; an MTU of 0: no link has it.
	Addrs map[netip.Addr]int
	End   netip.Addr
	MTU   int
	// Endless: no link has had the address of the tunnels for some time.
	Endless bool
	// Loose are the names of interfaces of pods on this host that are not ports of br-int. While a pod is attached its
	// interface is one.
	Loose []string
	// Lost are those that have been in Loose for looseWait.
	Lost []string
	// Rival describes another service proxy that runs on this node. Empty: none was seen.
	Rival string
}

// Bridge is a bridge of Open vSwitch.
type Bridge struct {
	Datapath string
	// Addrs and Routes are those that the card had when it became a port (br-ex), and those that br-ex was given since.
	Addrs  []netip.Prefix
	Routes []HostRoute
	Ports  map[string]Interface
}

// Interface is the interface of a port.
type Interface struct {
	Kind string // its type
	MAC  string // that the database wants it to have; "": any
	ID   string // external_ids:iface-id
	// Pod is the address of a pod with the prefix length of its range; zero: the interface is not a pod's.
	Pod netip.Prefix
	// PodMTU is the MTU that the pod's interface was made with, in bytes; 0: not known.
	PodMTU int
	// Chassis and Remote are name and address of a tunnel's other end.
	Chassis, Remote string
	Error           string // why Open vSwitch could not open it
}

// Link is an interface of the host.
type Link struct {
	Up       bool
	MAC      string
	MTU      int
	Addrs    []netip.Prefix
	Routes   []HostRoute // through it, that the host's administrator or its DHCP client made; of the uplink and br-ex
	Prepared bool        // as a port of a switch that is a program
}

// HostRoute is a route of the host that Porthole did not make.
type HostRoute struct {
	Dst      netip.Prefix `json:"dst"`
	Via      netip.Addr   `json:"via,omitzero"` // zero: Dst is on the link
	Metric   int          `json:"metric,omitempty"`
	Protocol int          `json:"protocol"` // who made it (rtnetlink(7), rtm_protocol)
	// OnLink: Via counts as a neighbour although no address of the interface says so.
	OnLink bool `json:"onLink,omitempty"`
}

// Verb of a Change.
type Verb string

// Verbs.
const (
	SetKeys      Verb = "set keys"
	DeleteKeys   Verb = "delete keys"
	AddBridge    Verb = "add bridge"
	DeleteBridge Verb = "delete bridge"
	AddPort      Verb = "add port"
	DeletePort   Verb = "delete port"
	SetMAC       Verb = "set MAC"
	Prepare      Verb = "prepare uplink"
	Release      Verb = "release uplink"
	Configure    Verb = "configure"
	MoveAddress  Verb = "move address"
	// Remember makes br-ex keep Addrs and Routes in place of those that it has had.
	Remember    Verb = "remember addresses"
	AddRoute    Verb = "add route"
	DeleteRoute Verb = "delete route"
)

// Change is one step of a plan. Which fields are set depends on the verb.
type Change struct {
	Verb Verb
	Name string // of the bridge, port or link that changes
	// AddPort: the bridge that gets the port; AddBridge: the card that becomes a port of the new bridge
	Bridge string
	Kind   string            // AddPort: type of the interface; AddBridge: type of the datapath
	Keys   map[string]string // SetKeys, DeleteKeys: external_ids of the switch; AddPort: those of the interface
	MAC    string            // AddBridge, AddPort, SetMAC, Configure
	MTU    int               // Configure: in bytes
	// AddBridge: those of the card, to be remembered; MoveAddress, Configure: those that Name gets
	Addrs []netip.Prefix
	// AddBridge: those of the card, to be remembered; MoveAddress: those that lead through Name from then on
	Routes []HostRoute
	From   string       // MoveAddress: the card that loses Addrs
	Dst    netip.Prefix // AddRoute, DeleteRoute
	Via    netip.Addr   // AddRoute, DeleteRoute: the next hop
	Why    string       // for logs; empty: the verb tells enough
}

// String implements table.Op.
func (c Change) String() string {
	parts := []string{string(c.Verb)}
	if c.Name != "" {
		parts = append(parts, c.Name)
	}
	if c.Bridge != "" {
		parts = append(parts, "of "+c.Bridge)
	}
	if c.Dst.IsValid() {
		parts = append(parts, c.Dst.String(), "via", c.Via.String())
	}

	for _, k := range slices.Sorted(maps.Keys(c.Keys)) {
		parts = append(parts, k+"="+c.Keys[k])
	}
	for _, a := range c.Addrs {
		parts = append(parts, a.String())
	}
	for _, r := range c.Routes {
		parts = append(parts, r.String())
	}
	if c.From != "" {
		parts = append(parts, "from "+c.From)
	}
	if c.MTU > 0 {
		parts = append(parts, fmt.Sprint("mtu ", c.MTU))
	}
	if c.Why != "" {
		return strings.Join(parts, " ") + ": " + c.Why
	}
	return strings.Join(parts, " ")
}

// Makes implements table.Op.
func (c Change) Makes() netip.Prefix {
	if c.Verb == AddRoute {
		return c.Dst
	}
	return netip.Prefix{}
}

// NodeLink is the name of the host's interface that is the node's own port: the node's name is cut so that Linux takes
// it.
func NodeLink(node string) string {
	const longest = 11
	name := ovnet.SwitchName(node)
	return "k8s-" + name[:min(len(name), longest)]
}

type plan = table.Plan[Change]

// makePlan plans what this node needs. Where a step needs the result of an earlier one, it is planned in the pass that
// sees that result.
func makePlan(o Options, nodes []table.Node, seen Seen) plan {
	p := plan{Wanted: tunnels(o, nodes, seen)}
	p.Problems = problems(o, seen)
	if keys := missingKeys(o, nodes, seen); len(keys) > 0 {
		p.Ops = append(p.Ops, Change{Verb: SetKeys, Keys: keys})
	}
	if o.Uplink != "" {
		p.Ops = append(p.Ops, uplink(o, seen)...)
	}

	subnet := subnetOf(nodes, o.Node)
	if !subnet.IsValid() {
		return p
	}
	if e := held(seen, subnet); e != nil {
		subnet = e.Has
	}
	ready := nodePort(o, subnet, seen, &p)
	routes(o, subnet, seen, ready, &p)
	return p
}

// problems returns what the mode cannot repair itself.
func problems(o Options, seen Seen) []string {
	var out []string
	switch {
	case len(seen.Datapaths) == 0:
		out = append(out,
			fmt.Sprintf(
				"ovs-vswitchd has never run with the database of Open vSwitch on node %s, so that no packet passes: start it", o.Node))
	case !slices.Contains(seen.Datapaths, o.Datapath):
		out = append(out, fmt.Sprintf("Open vSwitch on node %s has no datapath %s: choose %s with --ovn-datapath",
			o.Node, o.Datapath, strings.Join(seen.Datapaths, " or ")))
	case seen.Away != "":
		out = append(out,
			fmt.Sprintf(
				"ovs-vswitchd does not work on node %s (%s): packets of pods do not pass, with the kernel's datapath those of new connections. Start it again",
				o.Node, seen.Away))
	}

	if seen.Endless {
		out = append(out, endless(o, seen))
	}
	if large := tooLarge(o, seen); len(large) > 0 {
		out = append(out,
			fmt.Sprintf(
				"the network between the nodes carries packets of pods of at most %d bytes now (--ovn-encap-type %s over an MTU of %d), and pods on node %s were made with more (%s): "+
					"their larger packets are lost. Give the network its MTU back, or delete these pods so that they are made again", PodMTU(seen.MTU, o.EncapType), o.EncapType, seen.MTU, o.Node, some(large)))
	}
	if len(seen.Lost) > 0 {
		out = append(out,
			fmt.Sprintf(
				"interfaces of pods on node %s are not ports of %s any more (%s): somebody deleted the ports or the bridge. "+
					"These pods have no network: delete them so that they are made again", o.Node, integration,
				some(seen.Lost)))
	}
	if seen.Rival != "" {
		out = append(out,
			fmt.Sprintf(
				"%s: it is at work on node %s beside the %s, and each connection to a service is translated twice. "+
					"Stop it, and take away what it has set up with `kube-proxy --cleanup`", seen.Rival, o.Node,
				nodeapi.OVNProgrammer))
	}
	return out
}

// endless says that the host does not have the address of the tunnels.
func endless(o Options, seen Seen) string {
	source := "the address of its Node object"
	cure := "let the kubelet report an address that the node has (its --node-ip): the tunnels follow"
	if o.EncapIP.IsValid() {
		source = "--ovn-encap-ip, or --node-ip"
		cure = "start porthole routes with another one, or without: then the tunnels follow the address of the Node object"
	}
	return fmt.Sprintf(
		"no interface of node %s has %s, the address of its tunnels (%s): packets between its pods and other nodes are lost. "+
			"Give an interface this address back, or %s", o.Node, seen.End, source, cure)
}

// tooLarge returns the logical ports of pods whose MTU is larger than what the tunnels carry, in order.
func tooLarge(o Options, seen Seen) (list []string) {
	for _, i := range seen.Bridges[integration].Ports {
		if seen.MTU > 0 && i.PodMTU > PodMTU(seen.MTU, o.EncapType) {
			list = append(list, i.ID)
		}
	}
	slices.Sort(list)
	return list
}

// some returns the first of a list for a message.
func some(list []string) string {
	const most = 3
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

func subnetOf(nodes []table.Node, self string) netip.Prefix {
	for _, n := range nodes {
		if n.Name == self {
			for _, r := range n.PodCIDRs {
				if r.Addr().Is4() {
					return r.Masked()
				}
			}
		}
	}
	return netip.Prefix{}
}

// held returns an error if attached pods have addresses of another range than subnet, because the range of the node
// has changed since. It returns nil if there are no such pods.
func held(seen Seen, subnet netip.Prefix) *RangeInUseError {
	e := RangeInUseError{Wants: subnet.Masked()}
	for _, name := range slices.Sorted(maps.Keys(seen.Bridges[integration].Ports)) {
		port := seen.Bridges[integration].Ports[name]
		if !port.Pod.IsValid() || port.Pod.Masked() == e.Wants {
			continue
		}
		if e.Pods == 0 {
			e.Has, e.First = port.Pod.Masked(), port.ID
		}
		e.Pods++
	}
	if e.Pods == 0 {
		return nil
	}
	return &e
}

// RangeInUseError reports that the node's pod range has changed from Has to Wants while pods with addresses of Has are
// attached.
type RangeInUseError struct {
	Has, Wants netip.Prefix
	Pods       int    // attached pods with addresses outside of Wants
	First      string // logical port of one of them
}

func (e *RangeInUseError) Error() string {
	return fmt.Sprintf(
		"the pod range of this node is %s now, but %d pods with addresses of %s are attached to %s, as %s; nothing is changed: "+
			"drain the node (kubectl drain), with the pods of DaemonSets, or give it its old range back", e.Wants,
		e.Pods,
		e.Has, integration, e.First)
}

// NeedsDecision marks an error about which somebody has to decide.
func (*RangeInUseError) NeedsDecision() {}

// tunnels returns a wanted route for each other node, which is present once OVN has a tunnel to it.
func tunnels(o Options, nodes []table.Node, seen Seen) []table.Wanted {
	wanted := table.Peers(nodes,
		table.Claims{Self: o.Node,
			Cluster: table.Cluster{Pods: []netip.Prefix{o.Cluster.Masked()},
				Services: []netip.Prefix{o.Services.Masked()}}})
	remotes := map[string]string{}
	for _, i := range seen.Bridges[integration].Ports {
		if i.Remote != "" {
			remotes[i.Chassis] = i.Remote
		}
	}

	for i := range wanted {
		w := &wanted[i]
		if w.State != table.Missing {
			continue
		}
		if remote, ok := remotes[w.Node]; ok {
			w.State = table.Present
			w.NextHop, _ = netip.ParseAddr(remote)
			continue
		}
		w.State = table.Waiting
		w.Reason = fmt.Sprintf(
			"OVN has no tunnel to node %s yet: does ovn-controller run there and reach the southbound database, and do both nodes have a kind of tunnel in common?", w.Node)
	}
	return wanted
}

// settleFlows is how long, in milliseconds, a new ovn-controller leaves the flows of the one before (OVN 22.09 and
// newer). Without it, it begins by deleting them, and packets are lost until it has made its own.
const settleFlows = "2000"

func missingKeys(o Options, nodes []table.Node, seen Seen) map[string]string {
	keys := map[string]string{
		"system-id": o.Node, "ovn-remote": o.Remote, "ovn-encap-type": o.EncapType,
		"ovn-encap-ip": o.encap(nodes).String(), "ovn-bridge": integration,
		"ovn-bridge-datapath-type": o.Datapath, "hostname": o.Node, "ovn-ofctrl-wait-before-clear": settleFlows,
	}
	maps.DeleteFunc(keys, func(k, v string) bool { return seen.Keys[k] == v || v == "" })
	return keys
}

// nodePort plans the port of the node itself. It returns true once the interface is up with its address.
func nodePort(o Options, subnet netip.Prefix, seen Seen, p *plan) bool {
	name := NodeLink(o.Node)
	id := ovnet.NodePort(o.Node)
	self := ovnet.NodeAddr(subnet)
	mac := ovnet.MACOf(self)
	bridge, made := seen.Bridges[integration]
	if !made {
		return false // ovn-controller makes it
	}
	port, ok := bridge.Ports[name]
	switch {
	case ok && port.ID != id:
		p.Ops = append(p.Ops, Change{Verb: DeletePort, Name: name,
			Why: fmt.Sprintf("it is for the logical port %s", port.ID)})
		fallthrough
	case !ok:
		p.Ops = append(p.Ops, Change{Verb: AddPort, Name: name, Bridge: integration, Kind: "internal", MAC: mac,
			Keys: map[string]string{"iface-id": id}})
		return false
	case port.MAC != mac: // of an earlier range; another interface would be another adapter
		p.Ops = append(p.Ops, Change{Verb: SetMAC, Name: name, MAC: mac, Why: "it has " + port.MAC})
		return false
	}

	link, there := seen.Links[name]
	if !there || seen.MTU == 0 {
		return false
	}
	at := netip.PrefixFrom(self, subnet.Bits())
	mtu := PodMTU(seen.MTU, o.EncapType)
	if !link.Up || link.MAC != mac || link.MTU != mtu || !slices.Equal(link.Addrs, []netip.Prefix{at}) {
		p.Ops = append(p.Ops, Change{Verb: Configure, Name: name, MAC: mac, MTU: mtu, Addrs: []netip.Prefix{at}})
		return slices.Contains(link.Addrs, at) && link.Up
	}
	return true
}

// routes plans the node's routes to pods and services, through the router on its own switch.
func routes(o Options, subnet netip.Prefix, seen Seen, ready bool, p *plan) {
	var wanted []table.Wanted
	for _, dst := range []netip.Prefix{o.Cluster.Masked(), o.Services.Masked()} {
		w := table.Wanted{Node: o.Node, Dst: dst, NextHop: ovnet.RouterAddr(subnet), State: table.Missing}
		if !ready {
			w.State = table.Waiting
			w.Reason = "the node's own port of OVN is not ready: " + why(o, seen)
		}
		wanted = append(wanted, w)
	}

	diff := table.Diff(wanted, seen.Routes)
	p.Wanted = append(p.Wanted, diff.Wanted...)
	for _, c := range diff.Ops {
		verb := AddRoute
		if c.Verb == table.Delete {
			verb = DeleteRoute
		}
		p.Ops = append(p.Ops, Change{Verb: verb, Dst: c.Dst, Via: c.NextHop, Why: c.Why})
	}
}

// why returns the reason for which the node's port is not ready.
func why(o Options, seen Seen) string {
	bridge, made := seen.Bridges[integration]
	port, there := bridge.Ports[NodeLink(o.Node)]
	switch {
	case seen.MTU == 0:
		return "no interface of this host has the address of the tunnels"
	case !made:
		return "ovn-controller has not made " + integration +
			": does it run, and does it reach the southbound database at " + o.Remote + "?"
	case there && port.Error != "":
		return "Open vSwitch cannot open it: " + port.Error
	}
	return "it is being made"
}
