package userspace

import (
	"context"
	"net/netip"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

// InterfaceVariable names the environment variable with the interface's name, as the first Windows kube-proxy had it.
const InterfaceVariable = "INTERFACE_TO_ADD_SERVICE_IP"

// host is this host's addresses; platform.Addresses is the real one.
type host interface {
	List() (interfaces []string, addrs []platform.HostAddress, err error)
	// Add and Remove take single addresses; one that is there, or gone, already is success.
	Add(iface string, addr netip.Addr) error
	Remove(iface string, addr netip.Addr) error
	// Watch calls changed after each change until ctx ends.
	Watch(ctx context.Context, changed func()) error
}

// reporter is told how things stand; health.Server is one. It must not block.
type reporter interface {
	Pass(health.Pass)
	Service(health.ServiceStatus)
	Programmed(triggered time.Time)
	Repaired(kind string, n int)
}

// Options of a Proxy.
type Options struct {
	// Interface that gets the addresses; required. Best one that only this host reaches: on others the host may answer
	// for the addresses towards its neighbours.
	Interface string
	// StateFile remembers which addresses are ours; required. Its folder is made.
	StateFile string
	// Take gives the services that changed since it was called last; complete is false until all have arrived once.
	// Required.
	Take func() (changed []service.State, complete bool)
	// Changed wakes the loop; it may be woken for nothing.
	Changed <-chan struct{}
	// Reserved addresses are never put on the interface: what the node needs to reach others (the API server).
	Reserved []netip.Addr
	// NodePorts are the ranges of this node's addresses at which node ports are served; empty: all but link-local ones.
	NodePorts []netip.Prefix
	// Primary, if set, gives the only addresses at which node ports are served, in place of NodePorts. With an error they
	// are not known yet, and the proxy tries again.
	Primary func() ([]netip.Addr, error)
	// Cluster are the ranges of the pods; their clients, and this host itself, count as inside the cluster.
	Cluster []netip.Prefix
	// Reporter is told how things stand; nil: nobody.
	Reporter reporter
	// Relay's limits; Inside and Ended are set here.
	Relay relay.Options
	// Settle is how long changes gather; 0 means 20 ms.
	Settle time.Duration
	// Period of the full check; 0 means 30 s.
	Period time.Duration
	// RetryMin and RetryMax bound the back-off after a failure; 0 means 1 s and 30 s.
	RetryMin, RetryMax time.Duration
	// Linger is how long an address without a service stays for the sake of its open connections; 0 means 5 min.
	Linger time.Duration
	// Host is nil for this host.
	Host host
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Settle, 20 * time.Millisecond}, {&o.Period, 30 * time.Second}, {&o.RetryMin, time.Second}, {&o.RetryMax, 30 * time.Second}, {&o.Linger, 5 * time.Minute}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Host == nil {
		o.Host = platform.Addresses{}
	}
	return o
}

// Reasons of failures, as they stand in a service's status.
const (
	ReasonPortInUse        = "PortInUse"        // another program listens there
	ReasonListenFailed     = "ListenFailed"     // the host refuses for another cause
	ReasonAddressNotAdded  = "AddressNotAdded"  // the interface does not take the address
	ReasonInterfaceMissing = "InterfaceMissing" // there is no interface of that name
	ReasonAddressReserved  = "AddressReserved"  // the node would cut itself off
	ReasonAddressRefused   = "AddressRefused"   // no address that a host may take: loopback, multicast, link-local
	ReasonFrontendTaken    = "FrontendTaken"    // another service has address and port
)

// failure is why a frontend is not served.
type failure struct {
	reason, message string
}
