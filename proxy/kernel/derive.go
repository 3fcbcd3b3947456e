package kernel

import (
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// deriver turns what services ask into frontends that load balancers of HNS can serve.
//
// A load balancer of HNS has one port for all of its backends. A frontend whose backends listen on different ports is
// served by a relay in this process: the load balancer leads to the host's own endpoint, on overlay networks to the
// node's address (see RelayOptions.Overlay), where the relay listens, and the relay leads to the backends. They see
// the node's address, and connections end with this process. Without a relay the backends of the most common port are
// served.
type deriver struct {
	*session
	facts *balance.Facts

	relay   Relay // nil: none
	relayed map[service.Key]*service.Frontend

	forwardHealthChecks bool
	healthPort          uint16
	// noHostReported: it was logged that the host has no endpoint.
	noHostReported bool
}

// frontends calls put for each frontend of a service. derived ones are added by us: their failure is not the service's.
func (d *deriver) frontends(s *service.State, put func(f *service.Frontend, derived bool)) {
	for i := range s.Frontends {
		put(d.throughRelay(balance.Adapt(&s.Frontends[i])), false)
		access := balance.NodeAccessOf(&s.Frontends[i], d.facts)
		for j := range access {
			put(d.throughRelay(&access[j]), true)
		}
	}

	if !d.forwardHealthChecks {
		return
	}
	checks := balance.HealthChecksOf(s, d.healthPort, d.facts)
	for i := range checks {
		put(&checks[i], true)
	}
}

// throughRelay returns the frontend with the relay as its only backend, if its backends listen on different ports and
// there is a relay that can listen; otherwise f itself.
func (d *deriver) throughRelay(f *service.Frontend) *service.Frontend {
	mixed := slices.ContainsFunc(f.Backends, func(b service.Backend) bool { return b.Port != f.Backends[0].Port })
	at := d.facts.RelayAddr
	if !mixed || d.relay == nil || !at.IsValid() || f.IPv6 {
		return f
	}

	var to []netip.AddrPort
	for _, b := range f.Backends {
		to = append(to, netip.AddrPortFrom(b.Addr, b.Port))
	}
	affinity := time.Duration(0)
	if f.Affinity {
		affinity = f.AffinityTimeout
	}
	port, err := d.relay.Ensure(f.Key, at, to, affinity)
	if err != nil {
		d.logger.Error(err, "No relay for backends of different ports", "frontend", f.Key.String(), "at", at)
		return f
	}

	g := *f
	g.Backends = []service.Backend{{Addr: at, Port: port, Local: !d.facts.Overlay()}}
	g.InternalBackends = nil
	g.Affinity = false
	g.LocalOnly = false
	g.PreserveDestination = false
	d.relayed[f.Key] = &g
	return &g
}

// releaseRelay ends the relay of a target whose load balancer does not lead to the relay any more.
func (d *deriver) releaseRelay(t *target) {
	if g, ok := d.relayed[t.key]; ok && t.f != g && !t.isOrphan() {
		delete(d.relayed, t.key)
		d.relay.Release(t.key)
	}
}

// findHost looks for the host's own endpoint, and for where the relay listens. It returns true if an address changed,
// so that everything is to be derived again.
func (d *deriver) findHost(index *balance.Index) (changed bool) {
	addr := balance.HostAddrOf(d.facts, index)
	if d.forwardHealthChecks && !addr.IsValid() && !d.noHostReported {
		d.noHostReported = true
		d.logger.Info(
			"The host has no endpoint of its own in the network (its second address): health checks are not forwarded from load balancer addresses")
	}
	before := [2]netip.Addr{d.facts.HostAddr, d.facts.RelayAddr}
	if addr != d.facts.HostAddr {
		d.noHostReported = false
		d.facts.HostAddr = addr
	}
	d.facts.RelayAddr = balance.RelayAddrOf(d.facts)
	return before != [2]netip.Addr{d.facts.HostAddr, d.facts.RelayAddr}
}
