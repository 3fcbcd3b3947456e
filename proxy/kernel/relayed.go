package kernel

import (
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/proxy/service"
)

// A load balancer of HNS has one port for all of its backends. A frontend whose backends listen on different ones is served
// by a relay in this process: the load balancer leads to the host's own endpoint, where the relay listens, and the relay to
// the backends. They see the node's address, and connections end with this process; without a relay the backends of the most
// common port are served.

// Relay carries connections and datagrams to backends of any port; proxy/relay does. Neither method may block.
type Relay interface {
	// Ensure listens at an address of the host for a frontend and gives the port, the same for the same frontend as far as
	// it is free. Doing it again replaces the backends; affinity 0 is none.
	Ensure(key service.Key, at netip.Addr, backends []netip.AddrPort, affinity time.Duration) (port uint16, err error)
	// Release ends the listener. Open connections stay. One that is not there is success.
	Release(key service.Key)
}

// relayed gives the frontend as a load balancer to the relay, where that is needed and possible; else the frontend itself.
func (p *Proxy) relayed(f *service.Frontend) *service.Frontend {
	mixed := slices.ContainsFunc(f.Backends, func(b service.Backend) bool { return b.Port != f.Backends[0].Port })
	if !mixed || p.opts.Relay == nil || !p.hostAddr.IsValid() || f.IPv6 {
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
	port, err := p.opts.Relay.Ensure(f.Key, p.hostAddr, to, affinity)
	if err != nil {
		p.logger.Error(err, "No relay for backends of different ports", "frontend", f.Key.String(), "at", p.hostAddr)
		return f
	}
	g := *f
	g.Backends, g.InternalBackends = []service.Backend{{Addr: p.hostAddr, Port: port, Local: true}}, nil
	g.Affinity, g.LocalOnly, g.PreserveDestination = false, false, false
	p.relays[f.Key] = &g
	return &g
}

// unrelay ends the relay of a target that HNS leads elsewhere by now.
func (p *Proxy) unrelay(t *target) {
	if g, ok := p.relays[t.key]; ok && t.f != g && t.litter == (guid{}) {
		delete(p.relays, t.key)
		p.opts.Relay.Release(t.key)
	}
}

// findHost looks for the host's own endpoint: where it has one, it is the second address of the network's subnet (win-bridge
// gives it to pods as their way out, flannel and we to the host). That a pod has it shows when the relay cannot listen there.
func (p *Proxy) findHost() {
	var addr netip.Addr
	for _, s := range p.facts.Network.Subnets {
		if a := s.HostAddr(); a.Is4() && !p.facts.overlay() && p.x.locals[a] != nil && !addr.IsValid() {
			addr = a
		}
	}
	if p.opts.ForwardHealthChecks && !addr.IsValid() && !p.hostMissed {
		p.hostMissed = true
		p.logger.Info("The host has no endpoint of its own in the network (its second address): health checks are not forwarded from load balancer addresses")
	}
	if addr != p.hostAddr {
		p.hostMissed = false
		p.hostAddr = addr
		p.facts.HostAddr = addr
		p.reoffer()
	}
}
