package service

import (
	"fmt"
	"net/netip"
	"time"

	"porthole.dev/porthole/hns"
)

// Kind of a frontend.
type Kind string

// Kinds of frontends.
const (
	ClusterIP  Kind = "cluster IP"
	NodePort   Kind = "node port"
	ExternalIP Kind = "external IP"
	Ingress    Kind = "ingress IP"
)

// Key is what makes a frontend unique on a node: two frontends with one key cannot both be served.
type Key struct {
	VIP      netip.Addr // zero: every address of the node
	IPv6     bool
	Protocol hns.Protocol
	Port     uint16
}

func (k Key) String() string {
	vip := "node"
	if k.VIP.IsValid() {
		vip = k.VIP.String()
	} else if k.IPv6 {
		vip = "node6"
	}
	return fmt.Sprintf("%s %d/%s", vip, k.Port, k.Protocol)
}

// Frontend is one address and port to serve. Without backends it refuses connections or does not exist, as the mode
// can. Its slices are shared by the frontends of a State and must not be changed.
type Frontend struct {
	Key
	Kind Kind
	// Service is namespace/name, PortName its port's name; both are for people and for order.
	Service, PortName string
	// Affinity keeps a client on one backend for AffinityTimeout after its last connection; 0 without affinity.
	Affinity        bool
	AffinityTimeout time.Duration
	// LocalOnly: the traffic policy, or PreserveDestination, allows only Backends of this node.
	LocalOnly bool
	// PreserveDestination asks for packets that still carry the frontend's address.
	PreserveDestination bool
	// Backends serve all clients, or those outside the cluster if there are InternalBackends. They are ordered by
	// address and port.
	Backends []Backend
	// InternalBackends are for clients in the cluster as this node sees them (its pods, and the node itself), where
	// those are treated differently: a node port, external or ingress IP whose external traffic policy is Local takes
	// them to the endpoints of the whole cluster, so that a client in a pod never depends on where the pods are
	// (kubernetes/kubernetes#106636). Nil where LocalOnly is not set and for cluster IPs; then Backends are for all.
	//
	// A load balancer of HNS has one list of endpoints for all clients and two of them cannot hold one frontend
	// (0x803b0013). So with one load balancer per frontend the choice is: as long as this node has Backends, those
	// (pods of this node reach the service, on this node); else InternalBackends, without the port flag for VIPs from
	// outside, as a cluster IP has it (outside clients stay refused, as the policy wants).
	InternalBackends []Backend
	// SourceRanges admits clients from these prefixes only; empty admits all. Only where Options.SourceRanges says
	// Carry.
	SourceRanges []netip.Prefix
}

// Internal returns the backends for clients in the cluster as seen from this node.
func (f Frontend) Internal() []Backend {
	if f.InternalBackends != nil {
		return f.InternalBackends
	}
	return f.Backends
}

// Backend is one address behind a frontend.
type Backend struct {
	Addr netip.Addr
	Port uint16
	// Local: the pod runs on this node.
	Local bool
}

// HealthCheck is what a load balancer in front of the cluster asks this node: how many endpoints of the service it has.
type HealthCheck struct {
	Service string // namespace/name
	Port    uint16
	// LocalEndpoints counts the addresses of ready endpoints on this node, of the service's first family.
	LocalEndpoints int
}

// Reasons of problems; they are the reasons of the events about them.
const (
	// ReasonProtocol: the mode has no such protocol.
	ReasonProtocol = "ProtocolNotSupported"
	// ReasonSourceRanges: loadBalancerSourceRanges cannot be enforced here.
	ReasonSourceRanges = "SourceRangesNotEnforced"
	// ReasonTaken: another service has the frontend.
	ReasonTaken = "FrontendTaken"
	// ReasonAddress: an address in the service is not valid.
	ReasonAddress = "InvalidAddress"
)

// Problem is something in a service that cannot be served as written.
type Problem struct {
	Service string // namespace/name
	Reason  string // CamelCase, the reason of an event
	Text    string
}

// Ranks of services, in the order in which they are to be programmed.
const (
	RankDNS     = iota // kube-system/kube-dns and whatever has the label k8s-app=kube-dns
	RankAPI            // default/kubernetes
	RankCluster        // label kubernetes.io/cluster-service=true
	RankOther
)

// State is what one Service wants of this node.
type State struct {
	Service string // namespace/name
	Rank    int
	// Frontends are in the order of the service's ports, and per port cluster IP, node port, ingress, external IPs.
	// Without any, the service is gone, or wants nothing of a proxy.
	Frontends   []Frontend
	HealthCheck *HealthCheck
	Problems    []Problem
	// Triggered are the times at which what led to the changed endpoints happened, as slices changed since the last
	// Take name them (annotation endpoints.kubernetes.io/last-change-trigger-time).
	Triggered []time.Time
}

// Empty reports whether the service wants nothing of this node and has no problem.
func (s State) Empty() bool {
	return len(s.Frontends) == 0 && s.HealthCheck == nil && len(s.Problems) == 0
}

// Node is this node.
type Node struct {
	Name string
	Zone string // label topology.kubernetes.io/zone; "" when unknown
}

// SourceRanges says what to do about a service with loadBalancerSourceRanges.
type SourceRanges string

// What to do about loadBalancerSourceRanges. HNS has no filter on a load balancer's frontend, and an ACL on the pods'
// endpoints would also bind cluster IP and node port, and not those of other nodes.
const (
	// Refuse, the default: ingress IPs with ranges are not served, rather than opened to every client.
	// SourceRangesAnnotation on a service overrides it.
	Refuse SourceRanges = ""
	// Elsewhere: a device in front of the cluster enforces them; ingress IPs are served to every client that gets
	// through.
	Elsewhere SourceRanges = "elsewhere"
	// Carry: the mode enforces them; they are in Frontend.SourceRanges.
	Carry SourceRanges = "carry"
)

// SourceRangesAnnotation with value "elsewhere" on a service says that a device in front of the cluster enforces its
// loadBalancerSourceRanges.
const SourceRangesAnnotation = "porthole.dev/source-ranges"

// Options of a Tracker.
type Options struct {
	SourceRanges SourceRanges
	// Since leaves out trigger times before it, whose changes an earlier proxy served; zero leaves out none.
	Since time.Time
}
