package table

import "slices"

// The one table, family ip. Maps hold what differs between objects, chains what they have in common; a chain that
// depends on content is named by the sum of its content, so one change of one object touches a few elements only.
//
//	prerouting ─ to the node itself ──▶ local: hostPorts, NodePorts, balancers with an address of the node
//	           ─ from a pod ──▶ dsr: balancers with direct server return
//	           │             ├▶ sdn: the pod's SDNRoutes ──▶ svc: balancers without
//	           │             └▶ ext
//	           └ from outside ──▶ ext: external addresses (port flags 2 and 16)
//	keepmark   ─ keeps: packets of connections that keep their destination get their pod's mark, for routing
//	output     ─ dsr, svc: every balancer with an address (the node's own programs; NodePorts without an address are
//	             refused, as on Windows; an address of the node with port flag 2 stands in for them)
//	forward, input, output ─ aclout, aclin       (established flows pass)
//	postrouting ─ snats (by connection mark), loop (a pod to itself), nat (OutBoundNAT)
//
// Name is the name of the table, in both families.
const Name = "hns"

// Sets and maps of the table.
const (
	DSR, Svc, Ext, NP     = "dsr", "svc", "ext", "np"
	EP, NPEP              = "ep", "npep"
	HostPort, HostPortVIP = "hp", "hpv"
	Snats, Nat, Loop      = "snats", "nat", "loop"
	SDN, ACLOut, ACLIn    = "sdn", "aclout", "aclin"
	Slots, NPSlots        = "slots", "npslots"
	Keep, Keeps           = "keep", "keeps"
	Stick                 = "stick" // filled by packets: which backend a client has
)

// Words of rules: the fields that a frontend is known by, and the protocols that have ports.
const (
	Frontend = "ip daddr . meta l4proto . th dport"
	Balanced = "meta l4proto { tcp, udp } "
)

var setTypes = map[string]string{
	DSR: "ipv4_addr . inet_proto . inet_service : verdict",
	Svc: "ipv4_addr . inet_proto . inet_service : verdict",
	Ext: "ipv4_addr . inet_proto . inet_service : verdict", NP: "inet_proto . inet_service : verdict",
	EP:          "ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service",
	NPEP:        "inet_proto . inet_service . mark : ipv4_addr . inet_service",
	HostPort:    "inet_proto . inet_service : ipv4_addr . inet_service",
	HostPortVIP: "ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service",
	Snats:       "mark : ipv4_addr", Nat: "ipv4_addr : verdict", Loop: "ipv4_addr . ipv4_addr",
	Slots:   "ipv4_addr . inet_proto . inet_service . mark : mark",
	NPSlots: "inet_proto . inet_service . mark : mark",
	Keep:    "ipv4_addr . inet_proto . inet_service . mark : mark", Keeps: "mark : mark",
	Stick: "ipv4_addr . ipv4_addr . inet_proto . inet_service : mark",
	SDN:   "ipv4_addr : verdict", ACLOut: "ipv4_addr : verdict", ACLIn: "ipv4_addr : verdict",
}

// counted are the maps whose elements count the packets that they decide about: those that begin a connection.
var counted = []string{DSR, Svc, Ext, NP, EP, NPEP, HostPort, HostPortVIP, Nat, SDN,
	ACLOut, ACLIn}

// setOptions are what a set has beside its type. A client stays with its backend for as long as the proxies of
// Kubernetes keep it by default (sessionAffinityConfig.clientIP.timeoutSeconds: three hours); HNS knows no time.
var setOptions = map[string]string{Stick: " flags dynamic,timeout; timeout 3h; size 65536;"}

// setType is the type of a set or map of ours.
func (f Family) setType(name string) string { return f.translate.Replace(setTypes[name]) }

// options is what a set or map of ours has beside its type.
func options(name string) string {
	if slices.Contains(counted, name) {
		return " counter;"
	}
	return setOptions[name]
}

// empty returns all sets and maps of the table without elements.
func (f Family) empty() map[string]Set {
	sets := map[string]Set{}
	for name := range setTypes {
		sets[name] = Set{Type: f.setType(name), Counted: slices.Contains(counted, name), Elems: map[string]string{}}
	}
	return sets
}
