package kernel

import (
	"context"
	"net/netip"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// host is the part of HNS that this package uses; hns/hcn implements it on Windows, hns/hnstest in tests. Each method may
// be called from many goroutines; each returns in bounded time. An error of class hns.Absent says that the thing is not
// there, one of class hns.Unknown says nothing.
type host interface {
	Version(context.Context) (hns.Version, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	// The ids of all objects of a kind: one call each.
	NetworkIDs(ctx context.Context, name string) ([]hns.NetworkID, error)
	EndpointIDs(context.Context, hns.NetworkID) ([]hns.EndpointID, error)
	LoadBalancerIDs(context.Context) ([]hns.LoadBalancerID, error)
	// LoadBalancerOutlines gives what one call tells of all load balancers, each as hns.LoadBalancer.Outline makes it a
	// number; or an error where HNS has no such call.
	LoadBalancerOutlines(context.Context) (map[hns.LoadBalancerID]uint64, error)
	// One object's document.
	Endpoint(context.Context, hns.EndpointID) (hns.Endpoint, error)
	LoadBalancer(context.Context, hns.LoadBalancerID) (hns.LoadBalancer, error)
	CreateEndpoint(context.Context, hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(context.Context, hns.EndpointID) error
	CreateLoadBalancer(context.Context, hns.LoadBalancer) (hns.LoadBalancer, error)
	// ModifyLoadBalancer answers with the document that HNS has afterwards.
	ModifyLoadBalancer(context.Context, hns.LoadBalancer) (hns.LoadBalancer, error)
	DeleteLoadBalancer(context.Context, hns.LoadBalancerID) error
}

// Reporter is told how the proxy fares; proxy/health.Server is one. It is called from one goroutine and must not block.
type Reporter interface {
	// Pass ends each round of work, a full check or what changes asked for.
	Pass(health.Pass)
	// Service is called when the status of a service changed.
	Service(health.ServiceStatus)
	// Programmed: a change of endpoints of that time is now in HNS.
	Programmed(triggered time.Time)
	// Repaired: a check found n objects of a kind lost or altered that we did not change.
	Repaired(kind string, n int)
}

// Options of a Proxy.
type Options struct {
	// NetworkName of the pods' HNS network; required.
	NetworkName string
	// EnableDSR: cluster IPs with direct server return, where HNS has it.
	EnableDSR bool
	// Host is HNS; required.
	Host host
	// Take gives the services that changed since the last call, whole; complete is false while some objects have not arrived
	// since the start, and nothing is planned until then. Required.
	Take func() (changed []service.State, complete bool)
	// Changed says that Take has something; it may be woken for nothing.
	Changed <-chan struct{}
	// Notify says that HNS told of a change; nil when it never does.
	Notify <-chan struct{}
	// Reporter is optional.
	Reporter Reporter

	// SourceVIP is the address that overlay load balancers use towards their backends; zero: one of the network's subnet is
	// chosen. Not used on other networks.
	SourceVIP netip.Addr
	// HostMAC is the hardware address of the node's adapter, for the node's own endpoints on overlay networks.
	HostMAC string
	// NodeAddrs gives the node's addresses as they are known now; nil, or while it gives none: the network's management
	// address. It is asked at each survey and when NodeChanged (optional) says so, and must not block.
	NodeAddrs   func() []netip.Addr
	NodeChanged <-chan struct{}
	// ForwardHealthChecks makes each ingress IP answer health checks: at its service's healthCheckNodePort, or at HealthPort (0:
	// none). It needs the host's own endpoint in the network.
	ForwardHealthChecks bool
	HealthPort          uint16
	// NoNodeAccess leaves out what lets programs of the node itself reach node ports and load balancer addresses: load
	// balancers with the node's address and port flag 2 (unverified on real Windows).
	NoNodeAccess bool

	// Dial connects to an address by TCP as a program of this node and hangs up at once; nil: load balancers that are listed
	// are believed to work (probe.go). Probed (optional) is told the result of each probe, one of the Probe constants.
	Dial   func(context.Context, netip.AddrPort) error
	Probed func(result string)

	// Relay carries what HNS cannot: backends of different ports behind one frontend; nil: those of one port are served.
	Relay Relay

	// Settle is the least time between two looks at what changed; the first change after it is taken at once. 0: 8 ms.
	Settle time.Duration
	// Period of the full check against HNS; 0: 30 s. Documents are read again in ReadAll; 0: 10 min.
	Period, ReadAll time.Duration
	// RetryMin and RetryMax bound the back-off of one frontend after a failure; 0: 0.5 s and 30 s.
	RetryMin, RetryMax time.Duration
	// Writers and Readers bound the calls to HNS in flight; 0: 4 and 12. Where HNS answers fast there are more writers (pace.go).
	Writers, Readers int
}

func (o *Options) defaults() {
	setDefault(&o.Settle, 8*time.Millisecond)
	setDefault(&o.Period, 30*time.Second)
	setDefault(&o.ReadAll, 10*time.Minute)
	setDefault(&o.RetryMin, 500*time.Millisecond)
	setDefault(&o.RetryMax, 30*time.Second)
	setDefault(&o.Writers, 4)
	setDefault(&o.Readers, 12)
	if o.Reporter == nil {
		o.Reporter = deaf{}
	}
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// deaf is the reporter of those who have none.
type deaf struct{}

func (deaf) Pass(health.Pass)             {}
func (deaf) Service(health.ServiceStatus) {}
func (deaf) Programmed(time.Time)         {}
func (deaf) Repaired(string, int)         {}

// Facts about the host that a plan depends on.
type Facts struct {
	Network hns.Network
	Version hns.Version
	// DSR: serve cluster IPs with direct server return.
	DSR bool
	// SourceVIP on overlay networks, NodeAddrs where the node is to reach its own node ports, HostMAC for overlay.
	SourceVIP netip.Addr
	NodeAddrs []netip.Addr
	HostMAC   string
	// HostAddr is the address of the host's own endpoint; zero: none.
	HostAddr netip.Addr
	// NodeAccess: load balancer addresses are to work for programs of the node.
	NodeAccess bool
	// ModifyLies: this HNS answers yes to a modification and does nothing (kubernetes/kubernetes#131466).
	ModifyLies bool
}

func (f *Facts) overlay() bool { return f.Network.Type == hns.Overlay }

// canModify says whether a load balancer can change in place.
func (f *Facts) canModify() bool { return f.Version.CanModifyLoadBalancer() && !f.ModifyLies }

// serves says whether this HNS and this network have the family.
func (f *Facts) serves(ipv6 bool) bool {
	if !ipv6 {
		return true
	}
	if !f.Version.HasIPv6() || f.overlay() {
		return false
	}
	if len(f.Network.Subnets) == 0 {
		return true // HNS did not say; it will
	}
	for _, s := range f.Network.Subnets {
		if s.Prefix.Addr().Is6() {
			return true
		}
	}
	return false
}

// provider is the host behind an address of an overlay network; false when no remote subnet covers it, so that the
// address is outside the overlay and the node itself is the way to it.
func (f *Facts) provider(addr netip.Addr) (netip.Addr, bool) {
	for _, r := range f.Network.RemoteSubnets {
		if r.Prefix.Contains(addr) {
			return r.Provider, true
		}
	}
	return f.Network.Management, false
}
