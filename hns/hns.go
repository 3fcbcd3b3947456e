// Package hns is our vocabulary of Windows networking: networks, endpoints, namespaces and load balancers of the Host
// Networking Service (HNS) as plain values, with typed ids and netip addresses, and the classes of its errors. It is
// pure: hns/hcn calls HNS on Windows, hns/hnstest is a fake for tests.
package hns

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Ids are lower-case GUIDs without braces, whatever case HNS wrote them in, so that they can be compared. hns/hcn
// sends them to HNS as HNS wrote them.
type (
	NetworkID      string
	EndpointID     string
	NamespaceID    string
	LoadBalancerID string
)

// NormalID returns a GUID as our ids hold it: lower case, without braces.
func NormalID(s string) string { return strings.ToLower(strings.Trim(s, "{} ")) }

// NoNamespace is the id that HNS writes for an endpoint in no namespace.
const NoNamespace = "00000000-0000-0000-0000-000000000000"

// Version is the version of HNS, which decides which features a host has.
type Version struct{ Major, Minor int }

// AtLeast reports whether v is the given version or a later one.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// CanModifyLoadBalancer reports whether a load balancer can be changed in place. Version 15.4 accepts the call and
// changes nothing (kubernetes/kubernetes#131466).
func (v Version) CanModifyLoadBalancer() bool { return v.AtLeast(15, 5) }

// HasSessionAffinity reports whether load balancers can keep a client on one backend.
func (v Version) HasSessionAffinity() bool { return v.AtLeast(12, 0) }

// HasDSR reports whether load balancers can leave the client's address as it is (direct server return).
func (v Version) HasDSR() bool { return v.Major == 9 && v.Minor >= 3 || v.AtLeast(10, 2) }

// HasIPv6 reports whether networks can be dual-stack.
func (v Version) HasIPv6() bool { return v.AtLeast(11, 10) }

// Types of networks, in HNS's spelling.
const (
	L2Bridge = "L2Bridge"
	L2Tunnel = "L2Tunnel"
	Overlay  = "Overlay"
	// Transparent networks put pods into the segment of the adapter, or onto what an extension of the switch makes of
	// it.
	Transparent = "Transparent"
)

// Network is a virtual switch of the host with its subnets.
type Network struct {
	ID      NetworkID
	Name    string
	Type    string
	Subnets []Subnet
	// Adapter is the name of the physical adapter that the network is bound to; empty: HNS chooses one.
	Adapter string
	// Management is the node's own address on the adapter. HNS reports it some time after the network was made.
	Management netip.Addr
	DNS        DNS
	// Extension is the id of an extension of the virtual switch that forwards its packets in place of the switch;
	// empty: none.
	Extension string
	// Transient networks are gone after a reboot; HNS makes others anew from its records, which interrupts the node's
	// network.
	Transient bool

	// The following fields are for overlay networks only.

	// RemoteSubnets say which host serves which addresses.
	RemoteSubnets []RemoteSubnet
	// RouterMAC is the hardware address of this host in the overlay, which its peers have to know. HNS chooses it when
	// it makes the network, and reports it some time later; it is not written.
	RouterMAC string
	// HostRoute lets the host's own programs reach the pods of the network on this host.
	HostRoute bool
	// VxlanPort is the UDP port of the tunnel; 0: HNS's own, which is 4789.
	VxlanPort uint16
}

// RemoteSubnet is a range of addresses of an overlay network and the host behind it. It is comparable, with MAC as HNS
// or we wrote it.
type RemoteSubnet struct {
	Prefix   netip.Prefix
	Provider netip.Addr // the host's own address
	VSID     uint32     // the virtual subnet, which is the VXLAN network identifier
	MAC      string     // RouterMAC of that host
}

// NormalMAC returns a hardware address in the one of HNS's spellings that it writes itself, "00-15-5D-11-00-04". Other
// texts are returned in upper case.
func NormalMAC(mac string) string { return strings.ToUpper(strings.ReplaceAll(mac, ":", "-")) }

// Subnet is a range of addresses of a network. Gateway is HNS's own address in it.
type Subnet struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
	VSID    uint32 // of an overlay network: its VXLAN network identifier; 0: none
}

// HostAddr returns the second address of the subnet. Node agents put the host's own endpoint there, and pods on
// bridged networks take it for their gateway: upstream's win-bridge has the same rule (also microsoft/SDN
// start-kubelet.ps1), because HNS keeps the first address for itself.
func (s Subnet) HostAddr() netip.Addr { return s.Prefix.Masked().Addr().Next().Next() }

// DNS holds the settings that a container gets with its endpoint.
type DNS struct {
	Domain  string
	Search  []string
	Servers []string
	Options []string
}

// Endpoint is a port of a network, with the addresses of what is attached to it (local), or stands for an address on
// another host (remote).
type Endpoint struct {
	ID        EndpointID
	Name      string
	Network   NetworkID
	Namespace NamespaceID // empty while it is in none
	Remote    bool
	Addrs     []netip.Addr
	// PrefixLen belongs to the first address; 0: HNS takes the subnet's.
	PrefixLen int
	MAC       string
	Routes    []Route
	DNS       DNS
	Policies  []Policy
	// Provider is the address of the host behind a remote endpoint of an overlay network, from its ProviderAddress
	// policy.
	Provider netip.Addr
	// State is that which HNS gives; it is not written.
	State EndpointState
}

// EndpointState is the state that HNS reports of an endpoint. Zero: it reported none.
type EndpointState uint16

// States of endpoints, as hcsshim and microsoft/SDN's scripts know them. An endpoint that is in no compartment yet is
// created. Attached is hcsshim's AttachedSharing, the state of a pod's endpoint, whose compartment several containers
// share.
const (
	EndpointCreated  EndpointState = 1
	EndpointAttached EndpointState = 3
	EndpointDetached EndpointState = 4
	EndpointDegraded EndpointState = 5
	EndpointGone     EndpointState = 6
)

// Broken returns what is wrong with an endpoint of this state, in a word; "" if nothing is. A state that HNS did not
// give is not wrong.
func (s EndpointState) Broken() string {
	switch s {
	case EndpointDegraded:
		return "degraded"
	case EndpointGone:
		return "destroyed"
	}
	return ""
}

// Has reports whether addr is one of the endpoint's addresses.
func (e Endpoint) Has(addr netip.Addr) bool { return slices.Contains(e.Addrs, addr) }

// Route is a route that a container gets with its endpoint.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr
}

// Policy is an HNS policy in the form of the v2 schema: a type and its settings as JSON.
type Policy struct {
	Type     string
	Settings json.RawMessage
}

// Namespace is a network compartment, such as the host's or a pod's, with the endpoints in it.
type Namespace struct {
	ID        NamespaceID
	Type      string
	Endpoints []EndpointID
}

// Protocol is an IP protocol number.
type Protocol uint8

// Protocols that load balancers support.
const (
	TCP Protocol = 6
	UDP Protocol = 17
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return fmt.Sprintf("protocol%d", uint8(p))
}

// Distribution says which connections go to the same backend.
type Distribution uint8

// Distributions that we use. HNS also has 1, by client address and protocol.
const (
	PerConnection Distribution = 0 // each connection by itself
	PerSource     Distribution = 2 // all of one client address: session affinity
)

// PortFlags of a load balancer's port mapping.
type PortFlags uint32

// Port flags of HNS. PortVIPExternal is a bit that upstream's kube-proxy defines.
const (
	PortILB         PortFlags = 1
	PortLocalRouted PortFlags = 2
	PortUseMux      PortFlags = 4
	PortPreserveDIP PortFlags = 8
	PortVIPExternal PortFlags = 16
)

// Port maps External on the frontend to Internal on every backend.
type Port struct {
	Protocol           Protocol
	External, Internal uint16
	Distribution       Distribution
	Flags              PortFlags
}

func (p Port) String() string { return fmt.Sprintf("%d/%s -> %d", p.External, p.Protocol, p.Internal) }

// LoadBalancer spreads the connections of its frontend over endpoints. Without VIPs the frontend is every address of
// the node.
type LoadBalancer struct {
	ID        LoadBalancerID
	Endpoints []EndpointID
	SourceVIP netip.Addr // zero: none
	VIPs      []netip.Addr
	Ports     []Port
	DSR       bool
	IPv6      bool
}
