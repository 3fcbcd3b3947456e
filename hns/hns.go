// Package hns is our vocabulary of Windows networking: networks, endpoints, namespaces and load balancers of the Host
// Networking Service as plain values, with typed ids and netip addresses, and the three answers that a look-up can have
// (present, absent, unknown). It talks to nobody: hns/hcn asks Windows, hns/hnstest is a fake for tests.
package hns

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Ids are lower-case GUIDs without braces, whatever case HNS wrote them in.
type (
	NetworkID      string
	EndpointID     string
	NamespaceID    string
	LoadBalancerID string
)

// NormalID gives a GUID as our ids hold it.
func NormalID(s string) string { return strings.ToLower(strings.Trim(s, "{} ")) }

// NoNamespace is what HNS writes for "in no namespace".
const NoNamespace = "00000000-0000-0000-0000-000000000000"

// Version of the HNS on this host; it decides which features exist.
type Version struct{ Major, Minor int }

// AtLeast compares versions.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// CanModifyLoadBalancer: 15.4 accepts the call and changes nothing (kubernetes/kubernetes#131466), 15.5 does it.
func (v Version) CanModifyLoadBalancer() bool { return v.AtLeast(15, 5) }

// HasSessionAffinity says whether load balancers may keep a client on one backend.
func (v Version) HasSessionAffinity() bool { return v.AtLeast(12, 0) }

// HasDSR says whether load balancers may leave the client's address as it is.
func (v Version) HasDSR() bool { return v.Major == 9 && v.Minor >= 3 || v.AtLeast(10, 2) }

// HasIPv6 says whether networks may be dual-stack.
func (v Version) HasIPv6() bool { return v.AtLeast(11, 10) }

// Names of network types in HNS's own spelling.
const (
	L2Bridge = "L2Bridge"
	L2Tunnel = "L2Tunnel"
	Overlay  = "Overlay"
)

// Network is one virtual switch.
type Network struct {
	ID      NetworkID
	Name    string
	Type    string
	Subnets []Subnet
	// Adapter binds an external network to a physical adapter by name; "" lets HNS choose.
	Adapter string
	// Management is the node's own address on the adapter. HNS reports it some time after the network is made.
	Management netip.Addr
	DNS        DNS
	// RemoteSubnets of an overlay network: which host serves which addresses.
	RemoteSubnets []RemoteSubnet
}

// RemoteSubnet is a range of addresses of an overlay network and the host behind it.
type RemoteSubnet struct {
	Prefix   netip.Prefix
	Provider netip.Addr
}

// Subnet of a network. Gateway is HNS's own address in it.
type Subnet struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
}

// HostAddr returns the second address of the subnet. Node agents put the host's own endpoint there, and pods on bridged
// networks take it for their gateway: upstream's win-bridge has the same rule (also microsoft/SDN start-kubelet.ps1), because
// HNS keeps the first address for itself.
func (s Subnet) HostAddr() netip.Addr { return s.Prefix.Masked().Addr().Next().Next() }

// DNS settings that an endpoint hands to its container.
type DNS struct {
	Domain  string
	Search  []string
	Servers []string
	Options []string
}

// Endpoint is a port of a network (local), or the address of something on another host (remote).
type Endpoint struct {
	ID        EndpointID
	Name      string
	Network   NetworkID
	Namespace NamespaceID // "" while unattached
	Remote    bool
	Addrs     []netip.Addr
	// PrefixLen of the first address; 0 leaves it to HNS, which takes the subnet's.
	PrefixLen int
	MAC       string
	Routes    []Route
	DNS       DNS
	Policies  []Policy
	// Provider is the host behind a remote endpoint of an overlay network, from its ProviderAddress policy.
	Provider netip.Addr
}

// Has says whether the endpoint carries the address.
func (e Endpoint) Has(addr netip.Addr) bool {
	for _, a := range e.Addrs {
		if a == addr {
			return true
		}
	}
	return false
}

// Route of an endpoint.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr
}

// Policy is one HNS policy in its v2 form: a type and its settings as JSON.
type Policy struct {
	Type     string
	Settings json.RawMessage
}

// Namespace is a network compartment with the endpoints in it.
type Namespace struct {
	ID        NamespaceID
	Type      string
	Endpoints []EndpointID
}

// Protocol is an IP protocol number.
type Protocol uint8

// The protocols that load balancers know.
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

// Distribution says what stays on one backend.
type Distribution uint8

// Distribution values of HNS.
const (
	PerConnection     Distribution = 0
	PerSourceProtocol Distribution = 1
	PerSource         Distribution = 2
)

// PortFlags of a load balancer's port mapping.
type PortFlags uint32

// Port flags of HNS. VIPExternal is upstream kube-proxy's own bit.
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
