package vxlan

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/routes/table"
)

// Kernel is what the mode observes of a Linux host.
type Kernel struct {
	Uplink Uplink
	Device Device // zero: there is none of that name
	// Entries of the device, and the routes of the main table inside the range of all pods.
	Neighbours []Neighbour
	Forwards   []Forward
	Routes     []Route
	// PathMTU holds nodes' addresses to which packets as large as the uplink sends do not get, with the size that does.
	PathMTU map[netip.Addr]int
}

// Uplink is the interface that has the node's own address.
type Uplink struct {
	Index int
	Name  string
	MTU   int
}

// Device is a VXLAN device.
type Device struct {
	Index    int // zero: not there
	MAC      MAC
	MTU      int
	Up       bool
	VXLAN    bool // false: a device of another kind has the name
	VNI      uint32
	Port     uint16
	Local    netip.Addr
	Uplink   int
	Learning bool
	Addrs    []netip.Prefix
}

// Neighbour says which MAC address the device sends to for an IP address.
type Neighbour struct {
	Addr      netip.Addr
	MAC       MAC
	Permanent bool
}

// Forward says to which node the device sends what is for a MAC address.
type Forward struct {
	MAC       MAC
	Public    netip.Addr
	Permanent bool
}

// Route is a route through a gateway.
type Route struct {
	Dst      netip.Prefix
	Via      netip.Addr
	OnDevice bool // through the VXLAN device
	OnLink   bool
	Ours     bool // by its protocol number
}

// Verb of an Op.
type Verb string

// Verbs. Set puts an entry in place, over one with the same key.
const (
	DeleteDevice    Verb = "delete device"
	MakeDevice      Verb = "make device"
	SetMTU          Verb = "set MTU of"
	AddAddress      Verb = "add address"
	DeleteAddress   Verb = "delete address"
	SetUp           Verb = "set up"
	SetNeighbour    Verb = "set neighbour"
	SetForward      Verb = "set forward"
	SetRoute        Verb = "set route"
	DeleteRoute     Verb = "delete route"
	DeleteForward   Verb = "delete forward"
	DeleteNeighbour Verb = "delete neighbour"
	Announce        Verb = "announce"
)

// Op is one change of a Linux host, or of what it announces.
type Op struct {
	Verb        Verb
	Device      Device // of MakeDevice and SetMTU
	Neighbour   Neighbour
	Forward     Forward
	Route       Route
	Addr        netip.Prefix      // of AddAddress and DeleteAddress
	Annotations map[string]string // of Announce
	Peer        netip.Prefix      // the pod range that it helps to reach; zero: none
	Why         string
}

// Makes implements table.Op.
func (o Op) Makes() netip.Prefix { return o.Peer }

// String implements table.Op.
func (o Op) String() string {
	what := ""
	switch o.Verb {
	case MakeDevice:
		what = fmt.Sprintf(" vni %d port %d local %s mac %s mtu %d", o.Device.VNI, o.Device.Port, o.Device.Local,
			o.Device.MAC, o.Device.MTU)
	case SetMTU:
		what = fmt.Sprintf(" the device to %d", o.Device.MTU)
	case AddAddress, DeleteAddress:
		what = " " + o.Addr.String()
	case SetNeighbour, DeleteNeighbour:
		what = fmt.Sprintf(" %s mac %s", o.Neighbour.Addr, o.Neighbour.MAC)
	case SetForward, DeleteForward:
		what = fmt.Sprintf(" mac %s to %s", o.Forward.MAC, o.Forward.Public)
	case SetRoute, DeleteRoute:
		what = fmt.Sprintf(" %s via %s", o.Route.Dst, o.Route.Via)
	case Announce:
		what = " " + strings.Join(sortedPairs(o.Annotations), " ")
	}
	return fmt.Sprintf("%s%s: %s", o.Verb, what, o.Why)
}

// firstMAC returns the MAC address that a node's VXLAN device gets when the node has announced none yet. It is locally
// administered, and a hash of the node's name and the VNI, so that the plan knows it before the device exists.
func firstMAC(node string, c Config) MAC {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, c.VNI))
	m := MAC(sum[:6])
	m[0] = m[0]&^0x01 | 0x02 // no multicast; locally administered
	return m
}

// kernelPlanner collects a plan.
type kernelPlanner struct {
	o     Options
	self  table.Node // zero: this node is not in the cluster
	seen  Kernel
	mac   MAC // that the device has or will have
	peers []Peer
	ops   []Op

	neighbours map[netip.Addr]Neighbour
	forwards   map[MAC]Forward
	routes     map[netip.Prefix][]Route
}

// PlanKernel plans the device and, for each peer, in this order, a neighbour (the network address of its range has its
// MAC address), a forwarding entry (that MAC address is at the node's public address) and a route. As long as one of
// them is missing no packet leaves for a wrong node. What is stale is deleted in the other order, and last the node
// announces itself: data does not wait for the API server.
//
// The device belongs to this mode. What it holds is ours, but for entries that cannot be of a node of the cluster:
// neighbours outside the pods' range with what forwards to them, and entries that are not permanent. Those are left
// alone.
func PlanKernel(o Options, nodes []table.Node, seen Kernel) table.Plan[Op] {
	k := &kernelPlanner{o: o, seen: seen}
	for _, n := range nodes {
		if n.Name == o.Node {
			k.self = n
		}
	}

	k.device()
	k.index()
	k.peers = Peers(o, nodes, k.entries())
	for i := range k.peers {
		k.peer(&k.peers[i])
	}
	k.stale()
	k.announce()
	return table.Plan[Op]{Wanted: Wanted(k.peers), Ops: k.ops}
}

func (k *kernelPlanner) add(o Op) { k.ops = append(k.ops, o) }

// device plans the device. A device that has to be made again keeps its MAC address, so that peers need no change.
func (k *kernelPlanner) device() {
	have := k.seen.Device
	want := Device{MAC: have.MAC, MTU: k.seen.Uplink.MTU - Overhead, VNI: k.o.Config.VNI, Port: k.o.Config.Port,
		Local: k.o.Addr, Uplink: k.seen.Uplink.Index}
	if have.Index == 0 || !have.VXLAN || have.MAC == (MAC{}) {
		want.MAC = k.announcedMAC()
	}
	k.mac = want.MAC

	why := "not there"
	if have.Index != 0 {
		why = have.differs(want, k.seen.Uplink.Name)
		if why != "" {
			k.add(Op{Verb: DeleteDevice, Why: why})
		}
	}
	switch {
	case why != "":
		k.add(Op{Verb: MakeDevice, Device: want, Why: why})
		k.seen.Neighbours = nil
		k.seen.Forwards = nil
		k.seen.Device = Device{}
		for i := range k.seen.Routes {
			k.seen.Routes[i].Ours = k.seen.Routes[i].Ours && !k.seen.Routes[i].OnDevice
		}
	case have.MTU != want.MTU:
		k.add(Op{Verb: SetMTU, Device: want,
			Why: fmt.Sprintf("has %d, and interface %s has %d", have.MTU, k.seen.Uplink.Name, k.seen.Uplink.MTU)})
	}
	k.addresses()
	if !k.seen.Device.Up {
		k.add(Op{Verb: SetUp, Why: "is down"})
	}
}

func (k *kernelPlanner) announcedMAC() MAC {
	if a, _, err := Read(k.self.Annotations); err == nil && a.MAC != (MAC{}) {
		return a.MAC
	}
	return firstMAC(k.o.Node, k.o.Config)
}

// differs returns why a device has to be made again, or "". The kernel cannot change these properties of one that
// exists.
func (d Device) differs(want Device, uplink string) string {
	switch {
	case !d.VXLAN:
		return "is no VXLAN device"
	case d.VNI != want.VNI:
		return fmt.Sprintf("has VNI %d", d.VNI)
	case d.Port != want.Port:
		return fmt.Sprintf("sends to port %d", d.Port)
	case d.Local != want.Local:
		return fmt.Sprintf("sends from %s", d.Local)
	case d.Uplink != want.Uplink:
		return "does not send through " + uplink
	case d.Learning:
		return "learns where MAC addresses are"
	}
	return ""
}

// addresses plans the address of the device: the network address of this node's range, as flannel has it.
func (k *kernelPlanner) addresses() {
	want := netip.Prefix{}
	for _, r := range k.self.PodCIDRs {
		if r.Addr().Is4() {
			want = netip.PrefixFrom(r.Masked().Addr(), 32)
			break
		}
	}
	if !want.IsValid() {
		return
	}

	found := false
	for _, a := range k.seen.Device.Addrs {
		found = found || a == want
		if a != want && a.IsSingleIP() && k.o.Cluster.Contains(a.Addr()) {
			k.add(Op{Verb: DeleteAddress, Addr: a, Why: fmt.Sprintf("this node's range begins at %s", want.Addr())})
		}
	}
	if !found {
		k.add(Op{Verb: AddAddress, Addr: want, Why: "not there"})
	}
}

// index makes what is there findable: there are thousands of each.
func (k *kernelPlanner) index() {
	k.neighbours = make(map[netip.Addr]Neighbour, len(k.seen.Neighbours))
	for _, n := range k.seen.Neighbours {
		k.neighbours[n.Addr] = n
	}
	k.forwards = make(map[MAC]Forward, len(k.seen.Forwards))
	for _, f := range k.seen.Forwards {
		k.forwards[f.MAC] = f
	}
	k.routes = make(map[netip.Prefix][]Route, len(k.seen.Routes))
	for _, r := range k.seen.Routes {
		k.routes[r.Dst] = append(k.routes[r.Dst], r)
	}
}

// peer plans the three entries of a peer that can be reached.
func (k *kernelPlanner) peer(p *Peer) {
	if p.State != table.Missing {
		return
	}
	before := len(k.ops)
	via := p.Dst.Addr()

	if n, ok := k.neighbours[via]; !ok || n.MAC != p.MAC || !n.Permanent {
		k.add(Op{Verb: SetNeighbour, Neighbour: Neighbour{via, p.MAC, true}, Peer: p.Dst,
			Why: difference(ok, n.Permanent, n.MAC.String())})
	}
	if f, ok := k.forwards[p.MAC]; !ok || f.Public != p.NextHop || !f.Permanent {
		k.add(Op{Verb: SetForward, Forward: Forward{p.MAC, p.NextHop, true}, Peer: p.Dst,
			Why: difference(ok, f.Permanent, f.Public.String())})
	}
	if why := k.routeTo(p, via); why != "" {
		k.add(Op{Verb: SetRoute, Route: Route{Dst: p.Dst, Via: via, OnDevice: true, OnLink: true, Ours: true},
			Peer: p.Dst, Why: why})
	}

	if len(k.ops) == before {
		p.State = table.Present
	}
	p.narrow(k.seen.PathMTU, k.seen.Uplink)
}

// entries are what the device has of peers, after index.
func (k *kernelPlanner) entries() entries {
	at := func(mac MAC) netip.Addr { return k.forwards[mac].Public }
	return entries{mac: k.mac, at: at, leads: func(dst netip.Prefix, mac MAC, public netip.Addr) bool {
		n, known := k.neighbours[dst.Addr()]
		leads := slices.ContainsFunc(k.routes[dst], func(r Route) bool { return r.Ours && r.OnDevice })
		return known && leads && n.MAC == mac && public.IsValid() && at(mac) == public
	}}
}

// difference says what is wrong with an entry that leads to another place.
func difference(found, permanent bool, value string) string {
	switch {
	case !found:
		return "not there"
	case !permanent:
		return "not permanent"
	}
	return "is " + value
}

// routeTo returns why the route to a peer has to be set, or "" if it is right.
func (k *kernelPlanner) routeTo(p *Peer, via netip.Addr) string {
	why := "not there"
	for _, r := range k.routes[p.Dst] {
		right := r.OnDevice && r.OnLink && r.Via == via
		switch {
		case right && r.Ours:
			return ""
		case right:
			why = "somebody else's"
		case r.Ours:
			why = "goes to " + r.Via.String()
		default:
			why = "goes to " + r.Via.String()
			p.Reason = fmt.Sprintf("somebody else's route to %s through %s is there too", r.Dst, r.Via)
		}
	}
	return why
}

// stale plans the deletion of what no peer has: routes first, so that nothing is sent any more, and neighbours last,
// because they show whose the forwarding entries are. What belongs to a peer that is Waiting stays as it is.
func (k *kernelPlanner) stale() {
	wanted := make(map[netip.Prefix]*Peer, len(k.peers))
	macs := make(map[MAC]bool, len(k.peers))
	addrs := make(map[netip.Addr]bool, len(k.peers))
	for i := range k.peers {
		p := &k.peers[i]
		if p.State == table.Refused {
			continue
		}
		wanted[p.Dst], addrs[p.Dst.Addr()] = p, true
		if p.State != table.Waiting {
			macs[p.MAC] = true
		} else if n, ok := k.neighbours[p.Dst.Addr()]; ok {
			macs[n.MAC] = true
		}
	}

	for _, r := range k.seen.Routes {
		p := wanted[r.Dst]
		switch {
		case !r.Ours:
		case p == nil:
			k.add(Op{Verb: DeleteRoute, Route: r, Why: "no node is to be reached there"})
		case p.State != table.Waiting && !(r.OnDevice && r.Via == r.Dst.Addr()):
			k.add(Op{Verb: DeleteRoute, Route: r, Why: "should go to " + r.Dst.Addr().String()})
		}
	}
	for _, n := range k.seen.Neighbours {
		if !k.o.Cluster.Contains(n.Addr) {
			macs[n.MAC] = true // of others, together with what forwards to it
		}
	}
	for _, f := range k.seen.Forwards {
		if f.Permanent && !macs[f.MAC] && f.MAC != (MAC{}) && f.MAC[0]&0x01 == 0 {
			k.add(Op{Verb: DeleteForward, Forward: f, Why: "no node has this MAC address"})
		}
	}
	for _, n := range k.seen.Neighbours {
		if n.Permanent && k.o.Cluster.Contains(n.Addr) && !addrs[n.Addr] {
			k.add(Op{Verb: DeleteNeighbour, Neighbour: n, Why: "no node has this range"})
		}
	}
}

// announce plans what this node tells the others.
func (k *kernelPlanner) announce() {
	if k.self.Name == "" {
		return
	}
	a := Announcement{VNI: k.o.Config.VNI, MAC: k.mac, Public: k.o.Addr}
	if left := a.Unwritten(k.self.Annotations); left != nil {
		k.add(Op{Verb: Announce, Annotations: left, Why: "the node does not say so"})
	}
}
