package kernel

import (
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// healthCheck is a frontend of our own making: a load balancer's address and the port at which this node tells how it fares,
// for what is in front of the cluster and asks the address itself.
const healthCheck service.Kind = "health check"

// healthChecks derives them from a service: one for each of its ingress IPs, at its healthCheckNodePort or, without one, at
// the proxy's own port. They lead to the host's own endpoint, as upstream's do; unlike upstream's they are there whether or not
// the service has endpoints, since the answer tells that.
func (p *Proxy) healthChecks(s *service.State) []service.Frontend {
	if !p.opts.ForwardHealthChecks || !p.facts.HostAddr.IsValid() {
		return nil
	}
	port := p.opts.HealthPort
	if s.HealthCheck != nil {
		port = s.HealthCheck.Port
	}
	var out []service.Frontend
	var done []netip.Addr
	for i := range s.Frontends {
		f := &s.Frontends[i]
		if f.Kind != service.Ingress || f.IPv6 || port == 0 || slices.Contains(done, f.VIP) {
			continue
		}
		done = append(done, f.VIP)
		out = append(out, service.Frontend{
			Key: service.Key{VIP: f.VIP, Protocol: hns.TCP, Port: port}, Kind: healthCheck, Service: s.Service, PortName: "health",
			Backends: []service.Backend{{Addr: p.facts.HostAddr, Port: port, Local: true}},
		})
	}
	return out
}
