// Package desired is the vocabulary between HNS and the data plane of an emulated host: what the data plane shall
// carry. Package hnsd computes it from HNS documents, package dataplane carries it out. Neither knows the other.
package desired

import "net/netip"

// State is everything that the data plane of one host carries. It is complete: what is not in it is removed,
// as far as it carries our marks (links hns*, the nft table hns). Ids are lower-case GUIDs.
type State struct {
	Networks      []Network
	Endpoints     []Endpoint
	Namespaces    []Namespace
	LoadBalancers []LoadBalancer
}

// Network is one virtual switch. L2Bridge, Overlay, NAT and Transparent networks have a data plane; others are state
// only.
type Network struct {
	ID      string
	Type    string // HCN's own word: L2Bridge, Overlay, Transparent, NAT, …
	Subnets []Subnet
	// Extension says that an extension of the switch forwards the packets: Open vSwitch.
	Extension bool

	// Of an Overlay network.
	Provider      netip.Addr // outer source of its packets; zero: the node's address
	RouterMAC     string     // of this host in the overlay, aa:bb:cc:dd:ee:ff; "": derived from the ids
	VxlanPort     uint16     // 0: 4789
	HostRoute     bool       // the host's own programs reach the overlay
	RemoteSubnets []RemoteSubnet
}

// RemoteSubnet is the part of an overlay that is on another host: at which provider address, behind which router.
type RemoteSubnet struct {
	Prefix   netip.Prefix
	VSID     uint32
	Provider netip.Addr
	MAC      string // aa:bb:cc:dd:ee:ff
}

// Subnet of a network. Gateway is HNS's own address in it (the bridge), usually the first.
type Subnet struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
	VSID    uint32 // 0: none
}

// Namespace is an HCN namespace. The host's own compartment has Host set and no path.
type Namespace struct {
	ID   string
	Host bool
	// Path of an existing Linux network namespace (made by a container runtime); empty: the data plane makes its own,
	// named hns-<id>, and removes it with the object.
	Path string
}

// Endpoint is a port of a network. Remote endpoints have no port here: they are only backends of load balancers.
type Endpoint struct {
	ID        string
	Name      string // as its maker called it
	Network   string // Network.ID
	Namespace string // Namespace.ID, or "" while unattached
	Remote    bool
	Addrs     []netip.Prefix
	MAC       string // aa:bb:cc:dd:ee:ff
	Gateway   netip.Addr
	Gateway6  netip.Addr
	DNS       []string
	MTU       int        // 0: the uplink's, less the encapsulation in an overlay
	Provider  netip.Addr // of a remote endpoint in an overlay: the address of its host

	// OutBoundNAT: traffic that leaves the node takes the node's address (or VirtualIP), except to Exceptions. With
	// Destinations it concerns only those. Several rules: the union of exceptions; Destinations rules are additions.
	OutboundNAT []OutboundNAT
	// SDNRoutes are the prefixes that are handed to the host's stack; without the service range here the endpoint
	// cannot reach load balancers that work without direct server return.
	SDNRoutes    []SDNRoute
	PortMappings []PortMapping
	ACLs         []ACL
	MaxEgress    uint64 // bytes per second; 0: no limit
}

type OutboundNAT struct {
	VirtualIP    netip.Addr
	Exceptions   []netip.Prefix
	Destinations []netip.Prefix
}

type SDNRoute struct {
	Destination netip.Prefix
	NextHop     netip.Addr
	NeedEncap   bool
}

type PortMapping struct {
	Protocol     uint8 // 6 TCP, 17 UDP
	ExternalPort uint16
	InternalPort uint16
	VIP          netip.Addr // zero: any local address
	// LocalRouted lets programs of the host reach the port at VIP too, or at the node's address. Without it only
	// others do.
	LocalRouted bool
}

type ACL struct {
	In, Allow       bool
	Priority        uint16
	Protocols       []uint8
	Local, Remote   []netip.Prefix
	LocalPorts      []PortRange
	RemotePorts     []PortRange
	HostLayerDriver bool // RuleType Host (WFP) rather than Switch (VFP)
}

type PortRange struct{ First, Last uint16 }

// LoadBalancer is one frontend set with its backends. No VIPs: every address of the node (NodePort).
type LoadBalancer struct {
	ID        string
	VIPs      []netip.Addr
	SourceVIP netip.Addr
	Backends  []string // Endpoint.ID, local or remote
	Ports     []LBPort
	DSR       bool // direct server return: backends see the client's address
	IPv6      bool
}

// LBPort maps ExternalPort on the frontend to InternalPort on each backend. Distribution 0 spreads connections, 1 keeps
// a source address and protocol on one backend, 2 a source address.
type LBPort struct {
	Protocol                   uint8
	ExternalPort, InternalPort uint16
	Distribution               uint8
	LocalRoutedVIP, ILB        bool
	PreserveDIP, VIPExternalIP bool
}

// Change is what differs from what the data plane was last told: endpoints and load balancers that are new or altered,
// and the ids of those that are gone.
type Change struct {
	Endpoints                        []Endpoint
	LoadBalancers                    []LoadBalancer
	GoneEndpoints, GoneLoadBalancers []string
}

// Empty reports whether nothing differs.
func (c Change) Empty() bool {
	return len(c.Endpoints)+len(c.LoadBalancers)+len(c.GoneEndpoints)+len(c.GoneLoadBalancers) == 0
}

// Traffic counts what an endpoint sends and receives, as it sees it. The data plane counts it.
type Traffic struct {
	BytesSent, PacketsSent, BytesReceived, PacketsReceived uint64
	DroppedIncoming, DroppedOutgoing                       uint64 // packets
}
