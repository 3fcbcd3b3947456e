package dataplane

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
const (
	setDSR, setSvc, setExt, setNP = "dsr", "svc", "ext", "np"
	setEP, setNPEP                = "ep", "npep"
	setHostPort, setHostPortVIP   = "hp", "hpv"
	setSnats, setNat, setLoop     = "snats", "nat", "loop"
	setSDN, setACLOut, setACLIn   = "sdn", "aclout", "aclin"
	setSlots, setNPSlots          = "slots", "npslots"
	setKeep, setKeeps             = "keep", "keeps"
	setStick                      = "stick" // filled by packets: which backend a client has
	frontend                      = "ip daddr . meta l4proto . th dport"
	balanced                      = "meta l4proto { tcp, udp } "
	affinitySlots                 = 256
	nodePortFirst, nodePortLast   = 30000, 32767
)

var setTypes = map[string]string{
	setDSR: "ipv4_addr . inet_proto . inet_service : verdict",
	setSvc: "ipv4_addr . inet_proto . inet_service : verdict",
	setExt: "ipv4_addr . inet_proto . inet_service : verdict", setNP: "inet_proto . inet_service : verdict",
	setEP:          "ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service",
	setNPEP:        "inet_proto . inet_service . mark : ipv4_addr . inet_service",
	setHostPort:    "inet_proto . inet_service : ipv4_addr . inet_service",
	setHostPortVIP: "ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service",
	setSnats:       "mark : ipv4_addr", setNat: "ipv4_addr : verdict", setLoop: "ipv4_addr . ipv4_addr",
	setSlots:   "ipv4_addr . inet_proto . inet_service . mark : mark",
	setNPSlots: "inet_proto . inet_service . mark : mark",
	setKeep:    "ipv4_addr . inet_proto . inet_service . mark : mark", setKeeps: "mark : mark",
	setStick: "ipv4_addr . ipv4_addr . inet_proto . inet_service : mark",
	setSDN:   "ipv4_addr : verdict", setACLOut: "ipv4_addr : verdict", setACLIn: "ipv4_addr : verdict",
}

// counted are the maps whose elements count the packets that they decide about: those that begin a connection.
var counted = []string{setDSR, setSvc, setExt, setNP, setEP, setNPEP, setHostPort, setHostPortVIP, setNat, setSDN,
	setACLOut, setACLIn}

// setOptions are what a set has beside its type. A client stays with its backend for as long as the proxies of
// Kubernetes keep it by default (sessionAffinityConfig.clientIP.timeoutSeconds: three hours); HNS knows no time.
var setOptions = map[string]string{setStick: " flags dynamic,timeout; timeout 3h; size 65536;"}

// setType is the type of a set or map of ours.
func (f family) setType(name string) string { return f.translate.Replace(setTypes[name]) }

// options is what a set or map of ours has beside its type.
func options(name string) string {
	if slices.Contains(counted, name) {
		return " counter;"
	}
	return setOptions[name]
}
