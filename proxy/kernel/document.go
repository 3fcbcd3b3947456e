package kernel

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// maxBackends of one load balancer: https://kubernetes.io/docs/concepts/services-networking/windows-networking/.
const maxBackends = 1024

// nodeAccess is a frontend of our own making: the node's address and a node port, for programs of the node itself.
const nodeAccess service.Kind = "node access"

// insideOnly is an address from outside whose backends are all elsewhere and whose traffic policy is Local: clients in the
// cluster reach it as if it were a cluster IP, others do not.
const insideOnly service.Kind = "inside only"

// adapted is a frontend as one load balancer can serve it: see service.Frontend.InternalBackends. The argument is not changed.
func adapted(f *service.Frontend) *service.Frontend {
	if !f.LocalOnly || len(f.Backends) > 0 || len(f.InternalBackends) == 0 || !f.VIP.IsValid() {
		return f
	}
	g := *f
	g.Kind, g.Backends, g.LocalOnly, g.PreserveDestination = insideOnly, f.InternalBackends, false, false
	return &g
}

// document is the load balancer for a frontend, without its endpoints and its id. The flags are those that upstream's proxy sets,
// and PortLocalRouted where the node itself is to reach an address from outside.
func document(f *service.Frontend, internal uint16, facts *Facts) hns.LoadBalancer {
	port := hns.Port{Protocol: f.Protocol, External: f.Port, Internal: internal}
	lb := hns.LoadBalancer{IPv6: f.IPv6}
	if f.VIP.IsValid() {
		lb.VIPs = []netip.Addr{f.VIP}
	}
	switch f.Kind {
	case service.ClusterIP, insideOnly:
		lb.DSR = facts.DSR
	case service.NodePort:
		port.Flags = hns.PortLocalRouted | hns.PortVIPExternal
		lb.DSR = f.LocalOnly
	case nodeAccess:
		port.Flags = hns.PortLocalRouted
		lb.DSR = f.LocalOnly
	case healthCheck:
		port.Flags = hns.PortVIPExternal
	case service.ExternalIP, service.Ingress:
		port.Flags = hns.PortVIPExternal
		lb.DSR = f.LocalOnly
		switch {
		case f.PreserveDestination && f.Kind == service.Ingress:
			port.Flags |= hns.PortPreserveDIP | hns.PortUseMux
		case facts.NodeAccess && !f.LocalOnly:
			port.Flags |= hns.PortLocalRouted
		}
	}
	if f.Affinity && facts.Version.HasSessionAffinity() {
		port.Distribution = hns.PerSource
	}
	// The relay is no pod: the way back is through the host, as for upstream's forwarded health checks.
	toHost := len(f.Backends) == 1 && f.Backends[0].Addr == facts.HostAddr && facts.HostAddr.IsValid()
	lb.DSR = lb.DSR && facts.Version.HasDSR() && !toHost
	lb.Ports = []hns.Port{port}
	return lb
}

// sourceOf is the address that a load balancer of an overlay network uses towards its backends: the source VIP, or the
// node's address when a backend is the node or outside the overlay, as upstream's proxy does it.
func sourceOf(backends []service.Backend, x *index, facts *Facts) netip.Addr {
	if !facts.overlay() {
		return netip.Addr{}
	}
	for _, b := range backends {
		if b.Local || x.locals[b.Addr] != nil {
			continue
		}
		if _, covered := facts.provider(b.Addr); !covered {
			return facts.Network.Management
		}
	}
	return facts.SourceVIP
}

// remoteDocument is the endpoint for an address elsewhere.
func remoteDocument(addr netip.Addr, facts *Facts) hns.Endpoint {
	e := hns.Endpoint{
		ID: endpointID(facts.Network.ID, addr), Name: namePrefix + addr.String(), Network: facts.Network.ID,
		Remote: true, Addrs: []netip.Addr{addr}, MAC: remoteMAC(addr),
	}
	if facts.overlay() {
		e.Provider, _ = facts.provider(addr)
		e.Policies = []hns.Policy{{Type: "ProviderAddress", Settings: providerSettings(e.Provider)}}
	}
	return e
}

// vipDocument is the remote endpoint by which an overlay network finds a cluster IP: at the node itself (spec of
// upstream's proxy: one per cluster IP, with the node's address and hardware address).
func vipDocument(vip netip.Addr, facts *Facts) hns.Endpoint {
	e := remoteDocument(vip, facts)
	e.Provider = facts.Network.Management
	e.Policies = []hns.Policy{{Type: "ProviderAddress", Settings: providerSettings(e.Provider)}}
	e.MAC = cmp.Or(facts.HostMAC, e.MAC)
	return e
}

// sourceDocument is the local endpoint that owns the source VIP.
func sourceDocument(facts *Facts) hns.Endpoint {
	return hns.Endpoint{
		ID: endpointID(facts.Network.ID, facts.SourceVIP), Name: sourceName, Network: facts.Network.ID,
		Addrs: []netip.Addr{facts.SourceVIP}, MAC: facts.HostMAC,
	}
}

func providerSettings(addr netip.Addr) json.RawMessage {
	text := ""
	if addr.IsValid() {
		text = addr.String()
	}
	return json.RawMessage(`{"ProviderAddress":"` + text + `"}`)
}

// nodeAccessOf derives what lets programs of the node reach a node port. Clients from outside reach it too, so it has the
// backends that the external policy allows them, and leaves them their address where the node port does.
func nodeAccessOf(f *service.Frontend, facts *Facts) []service.Frontend {
	if f.Kind != service.NodePort {
		return nil
	}
	var out []service.Frontend
	for _, addr := range facts.NodeAddrs {
		if addr.Is6() != f.IPv6 {
			continue
		}
		g := *f
		g.Kind, g.VIP = nodeAccess, addr
		out = append(out, g)
	}
	return out
}

// onePort keeps the backends of the most common port: a load balancer of HNS has one internal port for all. Left says
// how many are left out. The argument is not changed.
func onePort(all []service.Backend) (kept []service.Backend, left int) {
	if !slices.ContainsFunc(all, func(b service.Backend) bool { return b.Port != all[0].Port }) {
		return all, 0
	}
	count := map[uint16]int{}
	best := all[0].Port
	for _, b := range all {
		if count[b.Port]++; count[b.Port] > count[best] || count[b.Port] == count[best] && b.Port < best {
			best = b.Port
		}
	}
	for _, b := range all {
		if b.Port == best {
			kept = append(kept, b)
		}
	}
	return kept, len(all) - len(kept)
}
