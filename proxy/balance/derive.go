package balance

import (
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Kinds of derived frontends: no service asks for them by itself.
const (
	// NodeAccess is the node's address and a node port, for programs of the node itself.
	NodeAccess service.Kind = "node access"
	// InsideOnly is an address from outside whose backends are all on other nodes and whose traffic policy is Local:
	// clients in the cluster reach it as if it were a cluster IP, others do not.
	InsideOnly service.Kind = "inside only"
	// HealthCheck is a load balancer's address and the port at which this node reports its health, for a load balancer
	// in front of the cluster that asks the address itself.
	HealthCheck service.Kind = "health check"
)

// Adapt returns the frontend as one load balancer can serve it: see service.Frontend.InternalBackends. It returns f
// itself if nothing is to be adapted, and never changes it.
func Adapt(f *service.Frontend) *service.Frontend {
	if !f.LocalOnly || len(f.Backends) > 0 || len(f.InternalBackends) == 0 || !f.VIP.IsValid() {
		return f
	}

	adapted := *f
	adapted.Kind = InsideOnly
	adapted.Backends = f.InternalBackends
	adapted.LocalOnly = false
	adapted.PreserveDestination = false
	return &adapted
}

// NodeAccessOf derives the frontends by which programs of the node reach a node port. Clients from outside reach them
// too, so they have the backends that the external traffic policy allows, and keep client addresses where the node
// port does.
func NodeAccessOf(f *service.Frontend, facts *Facts) []service.Frontend {
	if f.Kind != service.NodePort || facts.refusedAccess(f.Key) {
		return nil
	}

	var out []service.Frontend
	for _, addr := range facts.NodeAddrs {
		if addr.Is6() != f.IPv6 {
			continue
		}
		derived := *f
		derived.Kind, derived.VIP = NodeAccess, addr
		out = append(out, derived)
	}
	return out
}

// AccessedBy returns the key of the frontend whose node access a derived frontend provides (see NodeAccessOf).
func AccessedBy(derived service.Key) service.Key {
	derived.VIP = netip.Addr{}
	return derived
}

// HealthChecksOf derives the health checks of a service: one for each of its ingress IPs, at its healthCheckNodePort
// or, without one, at the given port (0: none). They lead to the host's own endpoint, as upstream's do; there are none
// without one. Unlike upstream's they exist whether or not the service has endpoints, since the answer says that.
func HealthChecksOf(s *service.State, port uint16, facts *Facts) []service.Frontend {
	if !facts.HostAddr.IsValid() {
		return nil
	}
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
			Key: service.Key{VIP: f.VIP, Protocol: hns.TCP, Port: port}, Kind: HealthCheck, Service: s.Service,
			PortName: "health",
			Backends: []service.Backend{{Addr: facts.HostAddr, Port: port, Local: true}},
		})
	}
	return out
}

// RelayAddrOf returns facts.RelayAddr, for a HostAddr that is up to date. An overlay network has no endpoint in the
// host's compartment.
func RelayAddrOf(facts *Facts) netip.Addr {
	switch {
	case !facts.Overlay():
		return facts.HostAddr
	case facts.OverlayRelay:
		return facts.Network.Management
	}
	return netip.Addr{}
}

// HostAddrOf returns the IPv4 address of the host's own endpoint (hns.Subnet.HostAddr), or the zero address if there
// is none. It does not distinguish the host's endpoint from a pod that has this address; then the relay fails to
// listen and reports it.
func HostAddrOf(facts *Facts, x *Index) netip.Addr {
	if facts.Overlay() {
		return netip.Addr{}
	}
	for _, s := range facts.Network.Subnets {
		if a := s.HostAddr(); a.Is4() && x.Local(a) != nil {
			return a
		}
	}
	return netip.Addr{}
}
