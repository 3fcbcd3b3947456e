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

// host lists and changes the addresses of this host; platform.Addresses does.
type host interface {
	List() (interfaces []string, addrs []platform.HostAddress, err error)
	// Add and Remove change one address. Adding one that is there, and removing one that is not, succeeds.
	Add(iface string, addr netip.Addr) error
	Remove(iface string, addr netip.Addr) error
	// Watch calls changed after each change until ctx ends.
	Watch(ctx context.Context, changed func()) error
}

// reporter receives the state of the proxy; health.Server is one. It must not block.
type reporter interface {
	Pass(health.Pass)
	Service(health.ServiceStatus)
	Programmed(triggered time.Time)
	Repaired(kind string, n int)
}

// Options of a Proxy.
type Options struct {
	// Interface that gets the addresses; required. It should be one that only this host reaches: on another one the
	// host may answer its neighbours for the addresses.
	Interface string
	// StateFile remembers which addresses are ours; required. Its folder is created.
	StateFile string
	// Take returns the services that changed since the last call; complete is false until all have arrived once.
	// Required.
	Take func() (changed []service.State, complete bool)
	// Changed wakes the loop; spurious wake-ups are harmless.
	Changed <-chan struct{}
	// Reserved addresses are never put on the interface: those by which the node reaches others, such as the API
	// server.
	Reserved []netip.Addr
	// NodePorts are the ranges of this node's addresses at which node ports are served; empty: all but link-local ones.
	NodePorts []netip.Prefix
	// Primary, if set, returns the only addresses at which node ports are served, in place of NodePorts. After an
	// error the proxy tries again.
	Primary func() ([]netip.Addr, error)
	// Cluster are the ranges of the pods. Clients in them, and this host itself, count as inside the cluster.
	Cluster []netip.Prefix
	// Reporter is optional.
	Reporter reporter
	// Relay has the relay's limits; Inside and Ended are set by New.
	Relay relay.Options
	// Settle is how long changes gather; 0 means 20 ms.
	Settle time.Duration
	// Period of the full check; 0 means 30 s.
	Period time.Duration
	// RetryMin and RetryMax bound the back-off after a failure; 0 means 1 s and 30 s.
	RetryMin, RetryMax time.Duration
	// Linger is how long an address without a service stays while it has open connections; 0 means 5 min.
	Linger time.Duration
	// Host is nil for this host.
	Host host
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Settle, 20 * time.Millisecond}, {&o.Period, 30 * time.Second}, {&o.RetryMin, time.Second}, {&o.RetryMax,
		30 * time.Second}, {&o.Linger, 5 * time.Minute}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Host == nil {
		o.Host = platform.Addresses{}
	}
	return o
}

// Reasons of problems, as a service's status has them.
const (
	ReasonPortInUse        = "PortInUse"        // another program listens there
	ReasonListenFailed     = "ListenFailed"     // the host refuses to listen for another cause
	ReasonAddressNotAdded  = "AddressNotAdded"  // the interface does not take the address
	ReasonInterfaceMissing = "InterfaceMissing" // there is no interface of that name
	ReasonAddressReserved  = "AddressReserved"  // the node needs the address to reach others
	ReasonAddressRefused   = "AddressRefused"   // a host may not take the address: loopback, multicast, link-local
	ReasonFrontendTaken    = "FrontendTaken"    // another service has address and port
)
