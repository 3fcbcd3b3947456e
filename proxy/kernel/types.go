package kernel

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// Host is HNS, by what the parts of the proxy use. Each method may be called from several goroutines at once and
// returns in bounded time. An error of class hns.Absent says that the thing does not exist; one of class hns.Unknown
// says nothing.
type Host struct {
	networks  networkReader
	ids       idLister
	documents documentReader
	endpoints endpointWriter
	balancers balancerWriter
}

// HostOf returns the Host that one client is: hns/hcn's on Windows, hns/hnstest's in tests.
func HostOf(client interface {
	networkReader
	idLister
	documentReader
	endpointWriter
	balancerWriter
}) Host {
	return Host{client, client, client, client, client}
}

type networkReader interface {
	Version(context.Context) (hns.Version, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	NetworkIDs(ctx context.Context, name string) ([]hns.NetworkID, error)
}

// idLister lists all objects of a kind with one call each.
type idLister interface {
	EndpointIDs(context.Context, hns.NetworkID) ([]hns.EndpointID, error)
	LoadBalancerIDs(context.Context) ([]hns.LoadBalancerID, error)
	// LoadBalancerOutlines returns a fingerprint of each load balancer, computed as hns.LoadBalancer.Outline does; or
	// an error if HNS has no such call.
	LoadBalancerOutlines(context.Context) (map[hns.LoadBalancerID]uint64, error)
}

type documentReader interface {
	Endpoint(context.Context, hns.EndpointID) (hns.Endpoint, error)
	LoadBalancer(context.Context, hns.LoadBalancerID) (hns.LoadBalancer, error)
}

type endpointWriter interface {
	CreateEndpoint(context.Context, hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(context.Context, hns.EndpointID) error
}

type balancerWriter interface {
	CreateLoadBalancer(context.Context, hns.LoadBalancer) (hns.LoadBalancer, error)
	// ModifyLoadBalancer returns the document that HNS has afterwards.
	ModifyLoadBalancer(context.Context, hns.LoadBalancer) (hns.LoadBalancer, error)
	DeleteLoadBalancer(context.Context, hns.LoadBalancerID) error
}

// Reporter receives the state of the proxy; proxy/health.Server is one. It is called from one goroutine and must not
// block.
type Reporter interface {
	// Pass ends a round of work: a full check, or what changes asked for.
	Pass(health.Pass)
	// Service is called when the status of a service changed.
	Service(health.ServiceStatus)
	// Programmed: a change of endpoints that was made at that time is now in HNS.
	Programmed(triggered time.Time)
	// Repaired: a check found n objects of a kind lost or altered that we did not change.
	Repaired(kind string, n int)
}

// Relay carries connections and datagrams to backends of any port; proxy/relay does. Neither method may block.
type Relay interface {
	// Ensure listens at an address of the host for a frontend and returns the port: the same for the same frontend as
	// long as it is free. Calling it again replaces the backends; affinity 0 means none.
	Ensure(key service.Key, at netip.Addr, backends []netip.AddrPort, affinity time.Duration) (port uint16, err error)
	// Release ends the listener; open connections stay. It does nothing if there is no listener.
	Release(key service.Key)
}

// RelayOptions say where a relay is used.
type RelayOptions struct {
	Relay Relay // nil: backends of the most common port are served
	// Overlay lets load balancers of an overlay network lead to the relay at the node's address. Upstream's proxy
	// foresees such a backend and never makes one, so that it is unverified, no. 96 (docs/windows-facts.md).
	Overlay bool
}

// Options of a Proxy.
type Options struct {
	// NetworkName of the pods' HNS network; required.
	NetworkName string
	// EnableDSR serves cluster IPs with direct server return, where HNS has it.
	EnableDSR bool
	// Host is HNS, from HostOf; required.
	Host Host
	// Take returns the services that changed since the last call, in full; complete is false while some objects have
	// not arrived since the start, and nothing is planned until then. Required.
	Take func() (changed []service.State, complete bool)
	// Changed receives when Take has something; spurious wake-ups are harmless.
	Changed <-chan struct{}
	// Notify receives when HNS reported a change; nil if it never does.
	Notify <-chan struct{}
	// Reporter is optional.
	Reporter Reporter

	// SourceVIP is the address that overlay load balancers use towards their backends; zero: a free one of the
	// network's subnet is chosen. Not used on other networks.
	SourceVIP netip.Addr
	// HostMAC is the hardware address of the node's adapter, for the node's own endpoints on overlay networks.
	HostMAC string
	// NodeAddrs returns the node's addresses as they are known now. If it is nil or returns none, the network's
	// management address is used. It is called at each full check and when NodeChanged (optional) receives, and must
	// not block.
	NodeAddrs   func() []netip.Addr
	NodeChanged <-chan struct{}
	// ForwardHealthChecks makes each ingress IP answer health checks: at its service's healthCheckNodePort, or at
	// HealthPort (0: none). It needs the host's own endpoint in the network.
	ForwardHealthChecks bool
	HealthPort          uint16
	// NodeAccess lets programs of the node itself reach node ports and load balancer addresses, by load balancers with
	// the node's address and by port flag 2. Upstream's proxy makes neither, and an HNS may refuse them
	// (docs/windows-facts.md); see access.go.
	NodeAccess bool

	// Renewed is set if the host may have rebooted since an earlier run wrote load balancers. Then they are replaced
	// once (renewal.go), and Renewed is called from the loop when none of them is left: at most once, and after the
	// first full check.
	Renewed func()

	// Dial connects to an address by TCP as a program of this node and hangs up at once; nil: load balancers that are
	// listed are believed to work (probe.go). Probed (optional) receives the result of each probe, one of the Probe
	// constants.
	Dial   func(context.Context, netip.AddrPort) error
	Probed func(result string)

	// Relay serves what HNS cannot: backends of different ports behind one frontend.
	Relay RelayOptions

	// Settle is the least time between two calls of Take; the first change after it is taken at once. 0: 8 ms.
	Settle time.Duration
	// Period of the full check against HNS; 0: 30 s. Each document is read again within ReadAll; 0: 10 min.
	Period, ReadAll time.Duration
	// RetryMin and RetryMax bound the back-off of one frontend after a failure; 0: 0.5 s and 30 s.
	RetryMin, RetryMax time.Duration
	// Writers and Readers bound the calls to HNS in flight; 0: 4 and 12. Where HNS answers fast there are more writers
	// (pace.go).
	Writers, Readers int
}

func (o *Options) setDefaults() {
	setDefault(&o.Settle, 8*time.Millisecond)
	setDefault(&o.Period, 30*time.Second)
	setDefault(&o.ReadAll, 10*time.Minute)
	setDefault(&o.RetryMin, 500*time.Millisecond)
	setDefault(&o.RetryMax, 30*time.Second)
	setDefault(&o.Writers, 4)
	setDefault(&o.Readers, 12)
	if o.Reporter == nil {
		o.Reporter = noReporter{}
	}
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

type noReporter struct{}

func (noReporter) Pass(health.Pass)             {}
func (noReporter) Service(health.ServiceStatus) {}
func (noReporter) Programmed(time.Time)         {}
func (noReporter) Repaired(string, int)         {}

// session is what Proxy.Run was given: calls end with ctx. It is set before anything else happens.
type session struct {
	ctx    context.Context
	logger klog.Logger
}
