package balance

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// MaxBackends of one load balancer: https://kubernetes.io/docs/concepts/services-networking/windows-networking/.
const MaxBackends = 1024

// document is the load balancer for a frontend whose backends listen on internal, without endpoints and id. The flags
// are those that upstream's proxy sets, and PortLocalRouted where the node itself is to reach an address from outside.
func document(f *service.Frontend, internal uint16, facts *Facts) hns.LoadBalancer {
	port := hns.Port{Protocol: f.Protocol, External: f.Port, Internal: internal}
	lb := hns.LoadBalancer{IPv6: f.IPv6}
	if f.VIP.IsValid() {
		lb.VIPs = []netip.Addr{f.VIP}
	}

	switch f.Kind {
	case service.ClusterIP, InsideOnly:
		lb.DSR = facts.DSR
	case service.NodePort:
		port.Flags = hns.PortLocalRouted | hns.PortVIPExternal
		lb.DSR = f.LocalOnly
	case NodeAccess:
		port.Flags = hns.PortLocalRouted
		lb.DSR = f.LocalOnly
	case HealthCheck:
		port.Flags = hns.PortVIPExternal
	case service.ExternalIP, service.Ingress:
		port.Flags = hns.PortVIPExternal
		lb.DSR = f.LocalOnly
		switch {
		case f.PreserveDestination && f.Kind == service.Ingress:
			port.Flags |= hns.PortPreserveDIP | hns.PortUseMux
		case facts.NodeAccess && !f.LocalOnly && !facts.refusedAccess(f.Key):
			port.Flags |= hns.PortLocalRouted
		}
	}

	if f.Affinity && facts.Version.HasSessionAffinity() {
		port.Distribution = hns.PerSource
	}
	// The relay is not a pod: its answers go through the host, as those of upstream's forwarded health checks do.
	toHost := len(f.Backends) == 1 && (f.Backends[0].Addr == facts.HostAddr || f.Backends[0].Addr == facts.RelayAddr)
	lb.DSR = lb.DSR && facts.Version.HasDSR() && !toHost
	lb.Ports = []hns.Port{port}
	return lb
}

// sourceOf is the address that a load balancer of an overlay network uses towards its backends: the source VIP, or the
// node's address if a backend is another node or outside the overlay. Upstream's proxy does the same: for the node
// itself it takes the source VIP (pkg/proxy/winkernel/proxier.go, "Node IP of current node").
func sourceOf(backends []service.Backend, x *Index, facts *Facts) netip.Addr {
	if !facts.Overlay() {
		return netip.Addr{}
	}
	for _, b := range backends {
		if b.Local || x.locals[b.Addr] != nil || b.Addr == facts.RelayAddr {
			continue
		}
		if _, covered := facts.Provider(b.Addr); !covered {
			return facts.Network.Management
		}
	}
	return facts.SourceVIP
}

// EndpointFor is the endpoint that is created for an address. clusterIP says that the address is a cluster IP, which
// an overlay network reaches through an endpoint of its own. uncovered reports that the overlay network, as known, has
// no way to the address.
func EndpointFor(addr netip.Addr, clusterIP bool, facts *Facts) (e hns.Endpoint, uncovered bool) {
	switch {
	case !facts.Overlay():
		return remoteDocument(addr, facts), false
	case addr == facts.SourceVIP:
		return sourceDocument(facts), false
	case clusterIP, addr == facts.RelayAddr:
		return vipDocument(addr, facts), false
	}
	_, covered := facts.Provider(addr)
	return remoteDocument(addr, facts), !covered
}

// remoteDocument is the endpoint for an address on another host.
func remoteDocument(addr netip.Addr, facts *Facts) hns.Endpoint {
	e := hns.Endpoint{
		ID: EndpointID(facts.Network.ID, addr), Name: namePrefix + addr.String(), Network: facts.Network.ID,
		Remote: true, Addrs: []netip.Addr{addr}, MAC: remoteMAC(addr),
	}
	if facts.Overlay() {
		e.Provider, _ = facts.Provider(addr)
		e.Policies = []hns.Policy{{Type: "ProviderAddress", Settings: providerSettings(e.Provider)}}
	}
	return e
}

// vipDocument is the remote endpoint by which an overlay network finds a cluster IP, or the relay: at the node itself.
// Upstream's proxy also has one per cluster IP, with the node's address and hardware address.
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
		ID: EndpointID(facts.Network.ID, facts.SourceVIP), Name: sourceName, Network: facts.Network.ID,
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

// onePort returns the backends of the most common port, since a load balancer of HNS has one internal port for all,
// and how many others there are. Of equally common ports it takes the lowest. all is not changed; it is returned if
// there is one port only.
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
