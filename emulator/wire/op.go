// Package wire is the protocol between the programs of an emulated host and its HNS: what the DLLs of emulator/dll
// send, and what hnsd answers. Every number of it is in this package and in the errors of package hnsd; the C header
// ops.h of the DLLs is generated from them. It is pure: its callers bring the connections.
//
//	request   u32 length of the rest, u32 operation, u64 handle, 16 bytes GUID, 3 x (u32 byte length, UTF-16 bytes)
//	answer    u32 length of the rest, u32 HRESULT, u64 handle, 2 x (u32 byte length or 0xffffffff for NULL, UTF-16 bytes)
//
// All numbers are little-endian. The first request of a connection is Hello, which has no answer. A connection belongs
// to one thread of the program: it sends a request only after the answer to its last one. Events and Notify turn a
// connection into a stream: the first answer reports whether the subscription stands, each further one is an event,
// and nothing else can be asked.
package wire

import "porthole.dev/porthole/emulator/hnsd"

// Port is where hnsd listens for the DLLs, on the loopback of its host; HNSAddress is the TCP address.
const (
	Port       = 10090
	HNSAddress = "127.0.0.1:10090"
)

// MarkSocket is the name of an abstract Unix socket (unix(7)) of type SOCK_SEQPACKET in the host's network namespace.
// There hnsd sets the firewall's marks on sockets of the host's programs. A program sends its mark (firewall.Mark, 4
// bytes, little-endian) and the socket's descriptor, and hnsd answers with one byte when the mark is set. MarkMillis
// is how long each side waits for the other, in milliseconds.
const (
	MarkSocket = "porthole-marks"
	MarkMillis = 1000
)

// Op is the operation of a request.
type Op uint32

// Operations that are not on an object of HCN.
const (
	// HNSCall is the interface of HNS before HCN: method, path and body.
	HNSCall Op = 100 + iota
	// Route changes a route of the host: one of the verbs, prefix and next hop, with the handle LinkHandle(index,
	// metric).
	Route
	// Events subscribes to changes of the host's IP stack: "routes", "addresses" or "interfaces". An event has the
	// result MIB_NOTIFICATION_TYPE, a handle as in Route, and the texts prefix and next hop.
	Events
	// Notify subscribes to the notifications of HNS. A notification has its number as result and its data as first
	// text. The end of the connection is the end of the service.
	Notify
	// Address changes a unicast address of the host: VerbCreate or VerbDelete, and address with length (which does not
	// count for deletions). The handle is the interface index.
	Address
	// Interface reads or changes the settings of an interface for one address family: VerbGet or VerbSet, and
	// FamilyIPv4 or FamilyIPv6. The handle is LinkHandle(index, flags); that of the answer to VerbGet is
	// LinkHandle(MTU, flags).
	Interface
	// Firewall replaces the rules of the host's inbound firewall by the first text: a JSON list of rules as the
	// registry has them.
	Firewall
	// Adapters reads the host's adapters as Windows shows them. The answer's first text has a line for each thing,
	// with tabs between its fields:
	//
	//	adapter INDEX LINK LUID BOUND KIND METRIC GUID ALIAS DESCRIPTION   a shown adapter, in Windows' order
	//	address LINK HEX INDEX                                            which adapter has an address of a link; 0: none
	//	dns INDEX HEX                                                     a DNS server of an adapter, in its order
	//	dns 0                                                             the host has DNS servers of its own, perhaps none
	//
	// LINK is the interface index in Linux. BOUND is 0 for a card that a virtual switch has taken over, which has no
	// IP. KIND is one of the Adapter constants. An address without a line belongs to the first bound adapter of its
	// link, and a link without a bound adapter is not shown. Without the line "dns 0" every adapter has the DNS
	// servers of this machine.
	Adapters

	// Hello begins a connection: the handle is the process id, the first text the program's file name.
	Hello Op = 1000
)

// The verbs of Route, Address and Interface.
const (
	VerbCreate = "create"
	VerbGet    = "get"
	VerbSet    = "set"
	VerbDelete = "delete"
)

// The families of Interface.
const (
	FamilyIPv4 = "ipv4"
	FamilyIPv6 = "ipv6"
)

// Kinds of Adapters.
const (
	AdapterCard     = "card"
	AdapterVirtual  = "virtual"
	AdapterLoopback = "loopback"
)

// Flags of Interface.
const FlagForwarding = 1

// Function is what HCN does with an object.
type Function uint32

// The functions of HCN.
const (
	Enumerate Function = iota
	Create
	Open
	Modify
	Query
	Delete
	Close
	functions
)

var functionNames = [functions]string{"Enumerate", "Create", "Open", "Modify", "Query", "Delete", "Close"}

func (f Function) String() string { return functionNames[f] }

// perKind is the distance between the operations of two kinds of object.
const perKind = 10

// On returns the operation that calls a function for a kind of object.
func On(k hnsd.Kind, f Function) Op { return perKind*Op(k) + Op(f) }

// Object is the reverse of On. ok is false for every operation that is not on an object.
func (o Op) Object() (k hnsd.Kind, f Function, ok bool) {
	k, f = hnsd.Kind(o/perKind), Function(o%perKind)
	return k, f, k < hnsd.Kinds && f < functions
}

// Calls reports whether the operation calls that function for any kind of object.
func (o Op) Calls(f Function) bool {
	_, called, ok := o.Object()
	return ok && called == f
}

// OnStack reports whether the operation is on the host's own IP stack, which works while HNS does not.
func (o Op) OnStack() bool {
	return o == Route || o == Address || o == Interface || o == Events || o == Adapters
}

// Notifications of HNS (HCN_NOTIFICATIONS of computenetwork.h). HNS has none for load balancers. Those for endpoints
// belong to handles of networks, for which no callback can be registered.
const (
	NetworkPreCreate = 1
	NetworkCreate    = 2
	NetworkPreDelete = 3
	NetworkDelete    = 4
	NamespaceCreate  = 5
	NamespaceDelete  = 6
	// ServiceDisconnect is never sent: the DLL makes it of the end of the stream.
	ServiceDisconnect = 0x01000000
)

// LinkHandle packs an interface index and a metric into the handle of a request or answer.
func LinkHandle(index int, metric uint32) uint64 { return uint64(metric)<<32 | uint64(uint32(index)) }

// Link is the reverse of LinkHandle.
func Link(handle uint64) (index int, metric uint32) { return int(uint32(handle)), uint32(handle >> 32) }
