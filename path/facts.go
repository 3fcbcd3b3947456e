package path

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
)

// Node is what one machine says of its network: a node, or a Linux router between nodes.
type Node struct {
	Name   string `json:"name"`
	System string `json:"system"` // linux or windows
	// At is when the facts were read.
	At time.Time `json:"at"`
	// Mode of `porthole routes` on the node; empty if it did not answer.
	Mode string `json:"mode,omitempty"`

	Interfaces []Interface `json:"interfaces"`
	Routes     []Route     `json:"routes"`
	Neighbours []Neighbour `json:"neighbours"`
	Forwards   []Forward   `json:"forwards,omitempty"`

	// Services are the service proxy's rules on Linux; those of Windows are in HNS.
	Services []Rule `json:"services,omitempty"`
	HNS      *HNS   `json:"hns,omitempty"`
	OVS      *OVS   `json:"ovs,omitempty"` // mode ovn
	OVN      *OVN   `json:"ovn,omitempty"` // of the machine with its databases
	// Confs are the CNI configurations of the node, by path.
	Confs []string `json:"cniConfs,omitempty"`

	// Unread says what could not be read, by name, with the reason. What is unread is never taken for absent.
	Unread map[string]string `json:"unread,omitempty"`
}

// The parts of Node that can be unread.
// They are the keys of Node.Unread.
const (
	UnreadRoutes     = "routes"
	UnreadNeighbours = "neighbours"
	UnreadServices   = "services"
	UnreadServices6  = "servicesIPv6" // the rules of IPv6 alone
	UnreadHNS        = "hns"
	UnreadMode       = "mode"
	UnreadConfs      = "cni"
	UnreadOVS        = "openvswitch"
	UnreadOVN        = "ovn"
)

// Interface is a network interface, or an adapter of Windows.
type Interface struct {
	Name       string         `json:"name"`
	MAC        string         `json:"mac,omitempty"` // in Go's form
	Up         bool           `json:"up"`
	MTU        int            `json:"mtu,omitempty"`
	Addresses  []netip.Prefix `json:"addresses,omitempty"`
	Forwarding bool           `json:"forwarding"` // of IPv4 packets that come in here
	// Of VXLAN devices of Linux: the number of the network, the UDP port and the own end. A port of zero is that of
	// other interfaces.
	VNI        uint32     `json:"vni,omitempty"`
	VXLANPort  uint16     `json:"vxlanPort,omitempty"`
	VXLANLocal netip.Addr `json:"vxlanLocal,omitzero"`
}

// Forward says to which machine a VXLAN device sends what is for a MAC address.
type Forward struct {
	MAC       string     `json:"mac"` // in Go's form
	To        netip.Addr `json:"to"`
	Interface string     `json:"interface"`
}

// Route is a route of the host.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	NextHop     netip.Addr   `json:"nextHop,omitzero"` // zero: on link
	Interface   string       `json:"interface"`
	Metric      uint32       `json:"metric"`
	Protocol    int          `json:"protocol,omitempty"` // Linux
}

// Neighbour is an entry of the ARP table.
type Neighbour struct {
	Address   netip.Addr `json:"address"`
	MAC       string     `json:"mac,omitempty"`
	Interface string     `json:"interface"`
	State     string     `json:"state"` // reachable, failed, permanent, other
}

// States of a neighbour that matter here. A failed one did not answer.
const (
	NeighbourFailed    = "failed"
	NeighbourPermanent = "permanent"
	NeighbourOther     = "other"
)

// Rule is how a Linux node serves one port of one address.
type Rule struct {
	Address  netip.Addr       `json:"address,omitzero"` // zero: every address of the node, as for node ports
	Protocol string           `json:"protocol"`         // tcp, udp, sctp
	Port     uint16           `json:"port"`
	Backends []netip.AddrPort `json:"backends"` // of every client, or if Split of pods and of the node itself
	Text     string           `json:"text"`     // names the rule
	// Split: other clients get Others, as with external traffic policy Local.
	Split  bool             `json:"split,omitempty"`
	Others []netip.AddrPort `json:"others,omitempty"`
}

// HNS is what the Host Networking Service of a Windows node has.
type HNS struct {
	Networks  []hns.Network      `json:"networks"`
	Endpoints []hns.Endpoint     `json:"endpoints"`
	Balancers []hns.LoadBalancer `json:"loadBalancers"`
}

// Cluster is what the API says.
type Cluster struct {
	Nodes         []ClusterNode
	Pods          []Pod
	Services      []Service
	ServiceRanges []netip.Prefix
}

// ClusterNode is a Node object.
type ClusterNode struct {
	Name     string
	System   string
	Address  netip.Addr
	Others   []netip.Addr // of another family
	PodCIDRs []netip.Prefix
	Zone     string // of its label topology.kubernetes.io/zone
}

// Pod is a Pod object that has a node.
type Pod struct {
	Name        string // NAMESPACE/NAME
	Node        string
	Address     netip.Addr   // zero: it has none yet
	Others      []netip.Addr // of another family
	HostNetwork bool
	Phase       string
	Waiting     string // why its containers do not run
}

// Service is one port of a Service with its backends, at addresses that have one traffic policy.
type Service struct {
	Name      string // NAMESPACE/NAME
	Protocol  string // tcp, udp, sctp
	Port      uint16
	NodePort  uint16
	Addresses []netip.Addr // cluster IPs, or external IPs and ingress addresses
	External  bool         // the addresses and NodePort are for clients outside of the cluster
	// the traffic policy of these addresses is Local: backends of one node only (see backendsFor)
	Local    bool
	Backends []Backend
	// Headless services have no address: DNS answers with those of the pods. ExternalName is set for a service that is
	// only another name.
	Headless     bool
	ExternalName string
}

// of returns the address of the same family as another; the first one if there is none, or if the other is zero.
func of(family, first netip.Addr, others []netip.Addr) netip.Addr {
	for _, a := range append([]netip.Addr{first}, others...) {
		if family.IsValid() && a.IsValid() && a.Is4() == family.Is4() {
			return a
		}
	}
	return first
}

// address returns the node's address of a family.
func (n *ClusterNode) address(family netip.Addr) netip.Addr { return of(family, n.Address, n.Others) }

// Backend is an endpoint of a service that is ready, or that serves while it terminates.
type Backend struct {
	Address     netip.AddrPort
	Node        string
	Terminating bool     // it is used only while no other is ready
	ForNodes    []string // the topology hints: nodes and zones whose clients it is for
	ForZones    []string
}

// Facts is all that Follow knows.
type Facts struct {
	Cluster Cluster
	Nodes   []Node // those that reported, routers included
}

// node returns the facts of a machine, and nil if it did not report.
func (f *Facts) node(name string) *Node {
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	return nil
}

// owner returns the machine that has an address of its own: by its facts, else by the API.
func (f *Facts) owner(addr netip.Addr) (name string, known bool) {
	for i := range f.Nodes {
		if f.Nodes[i].has(addr) {
			return f.Nodes[i].Name, true
		}
	}
	for _, n := range f.Cluster.Nodes {
		if n.Address == addr || slices.Contains(n.Others, addr) {
			return n.Name, true
		}
	}
	return "", false
}

// podAt returns the pod with an address that does not share its node's.
func (f *Facts) podAt(addr netip.Addr) *Pod {
	for i := range f.Cluster.Pods {
		if p := &f.Cluster.Pods[i]; (p.Address == addr || slices.Contains(p.Others, addr)) && !p.HostNetwork &&
			addr.IsValid() {
			return p
		}
	}
	return nil
}

// rangeOf returns the node whose pod range has the address.
func (f *Facts) rangeOf(addr netip.Addr) *ClusterNode {
	for i := range f.Cluster.Nodes {
		n := &f.Cluster.Nodes[i]
		if slices.ContainsFunc(n.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return n
		}
	}
	return nil
}

// clusterNode returns the Node object of that name, nil if there is none, as for a router.
func (f *Facts) clusterNode(name string) *ClusterNode {
	for i := range f.Cluster.Nodes {
		if f.Cluster.Nodes[i].Name == name {
			return &f.Cluster.Nodes[i]
		}
	}
	return nil
}

// has reports whether the machine has the address on an interface.
func (n *Node) has(addr netip.Addr) bool { return n.interfaceOf(addr) != nil }

// interfaceOf returns the interface with the address; nil if there is none.
func (n *Node) interfaceOf(addr netip.Addr) *Interface {
	for i := range n.Interfaces {
		if slices.ContainsFunc(n.Interfaces[i].Addresses, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			return &n.Interfaces[i]
		}
	}
	return nil
}

// interfaceNamed returns nil if the machine did not report such an interface.
func (n *Node) interfaceNamed(name string) *Interface {
	for i := range n.Interfaces {
		if n.Interfaces[i].Name == name {
			return &n.Interfaces[i]
		}
	}
	return nil
}

// routes returns the routes that the host takes: those of the longest prefix, and of the smallest metric among them.
// There is more than one if the host spreads packets over several next hops.
func (n *Node) routes(to netip.Addr) (best []Route) {
	for _, r := range n.Routes {
		if !r.Destination.Contains(to) || !n.up(r.Interface) {
			continue
		}
		// worse is above 0 for a route that is not taken, below 0 for one that is better than all
		// before.
		worse := 0
		if len(best) > 0 {
			worse = cmp.Or(cmp.Compare(best[0].Destination.Bits(), r.Destination.Bits()),
				cmp.Compare(r.Metric, best[0].Metric))
		}
		switch {
		case worse < 0 || len(best) == 0:
			best = []Route{r}
		case worse == 0:
			best = append(best, r)
		}
	}
	return best
}

// route returns one of routes. ok is false if there is none.
func (n *Node) route(to netip.Addr) (best Route, ok bool) {
	if list := n.routes(to); len(list) > 0 {
		return list[0], true
	}
	return Route{}, false
}

// up reports whether an interface is up, or not known: HNS hides some interfaces from Windows' own tables.
func (n *Node) up(name string) bool {
	i := n.interfaceNamed(name)
	return i == nil || i.Up
}

// neighbour returns the entry for an address on an interface; nil if there is none.
func (n *Node) neighbour(addr netip.Addr, on string) *Neighbour {
	for i := range n.Neighbours {
		if n.Neighbours[i].Address == addr && n.Neighbours[i].Interface == on {
			return &n.Neighbours[i]
		}
	}
	return nil
}

// endpoint returns the local endpoint of HNS with the address; nil if there is none.
func (h *HNS) endpoint(addr netip.Addr) *hns.Endpoint {
	for i := range h.Endpoints {
		if e := &h.Endpoints[i]; !e.Remote && e.Has(addr) {
			return e
		}
	}
	return nil
}

// byID returns nil for an endpoint that is gone.
func (h *HNS) byID(id hns.EndpointID) *hns.Endpoint {
	for i := range h.Endpoints {
		if h.Endpoints[i].ID == id {
			return &h.Endpoints[i]
		}
	}
	return nil
}
