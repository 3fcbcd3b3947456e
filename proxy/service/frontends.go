package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"porthole.dev/porthole/hns"
)

// Annotation of upstream: packets reach the pod with the frontend's address as destination.
const preserveDestination = "preserve-destination"

// Frontends lists what the node serves. The objects are not changed.
func Frontends(services []*corev1.Service, slicesOf []*discoveryv1.EndpointSlice, node Node) Result {
	byService := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range slicesOf {
		if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
			key := s.Namespace + "/" + name
			byService[key] = append(byService[key], s)
		}
	}
	var r Result
	for _, s := range services {
		r.add(s, byService[s.Namespace+"/"+s.Name], node)
	}
	slices.SortStableFunc(r.Frontends, func(a, b Frontend) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Service, b.Service), cmp.Compare(a.PortName, b.PortName),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	r.dropDoubles()
	return r
}

// rank puts first what everything else on a node needs.
func rank(f Frontend) int {
	switch {
	case f.Service == "kube-system/kube-dns":
		return 0
	case f.Service == "default/kubernetes":
		return 1
	}
	return 2
}

// dropDoubles keeps the first of two frontends with one key, and reports the other.
func (r *Result) dropDoubles() {
	owner := map[Key]string{}
	r.Frontends = slices.DeleteFunc(r.Frontends, func(f Frontend) bool {
		first, taken := owner[f.Key]
		if !taken {
			owner[f.Key] = f.Service
			return false
		}
		r.Problems = append(r.Problems, Problem{f.Service, "FrontendTaken", fmt.Sprintf("%s %s is taken by service %s", f.Kind, f.Key, first)})
		return true
	})
}

func (r *Result) add(s *corev1.Service, endpoints []*discoveryv1.EndpointSlice, node Node) {
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone || s.Spec.ClusterIP == "" {
		return
	}
	name := s.Namespace + "/" + s.Name
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		protocol, ok := protocolOf(port.Protocol)
		if !ok {
			r.Problems = append(r.Problems, Problem{name, "UnsupportedProtocol", fmt.Sprintf("port %d: HNS has no load balancing for %s", port.Port, port.Protocol)})
			continue
		}
		base := Frontend{
			Service: name, PortName: port.Name,
			Affinity:            s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
			PreserveDestination: s.Annotations[preserveDestination] == "true",
		}
		base.Protocol, base.Port = protocol, uint16(port.Port)
		r.addPort(s, port, base, &backendSets{slices: endpoints, port: port, node: node})
	}
}

func (r *Result) addPort(s *corev1.Service, port *corev1.ServicePort, base Frontend, sets *backendSets) {
	put := func(kind Kind, vip netip.Addr, number uint16, v6, localOnly bool) {
		f := base
		f.Kind, f.VIP, f.Port, f.IPv6, f.LocalOnly = kind, vip, number, v6, localOnly
		f.Backends = sets.pick(v6, localOnly)
		r.Frontends = append(r.Frontends, f)
	}
	internalLocal := s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	externalLocal := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	number := base.Port
	families := map[bool]bool{}
	for _, ip := range clusterIPs(s) {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			r.Problems = append(r.Problems, Problem{base.Service, "InvalidAddress", fmt.Sprintf("cluster IP %q is no address", ip)})
			continue
		}
		families[addr.Is6()] = true
		put(ClusterIP, addr, number, addr.Is6(), internalLocal)
	}
	for _, v6 := range []bool{false, true} {
		if port.NodePort != 0 && families[v6] {
			put(NodePort, netip.Addr{}, uint16(port.NodePort), v6, externalLocal)
		}
	}
	for _, ip := range s.Spec.ExternalIPs {
		if addr, err := netip.ParseAddr(ip); err == nil && families[addr.Is6()] {
			put(ExternalIP, addr, number, addr.Is6(), externalLocal)
		}
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if ingress.IPMode != nil && *ingress.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		// An ingress without an address is a host name: kubernetes/kubernetes#100228.
		if addr, err := netip.ParseAddr(ingress.IP); err == nil && families[addr.Is6()] {
			local := externalLocal || base.PreserveDestination
			put(Ingress, addr, number, addr.Is6(), local)
		}
	}
}

func clusterIPs(s *corev1.Service) []string {
	if len(s.Spec.ClusterIPs) > 0 {
		return s.Spec.ClusterIPs
	}
	return []string{s.Spec.ClusterIP}
}

func protocolOf(p corev1.Protocol) (hns.Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return hns.TCP, true
	case corev1.ProtocolUDP:
		return hns.UDP, true
	}
	return 0, false
}

// backendSets picks the backends of one service port.
type backendSets struct {
	slices []*discoveryv1.EndpointSlice
	port   *corev1.ServicePort
	node   Node
}

// candidate is an endpoint with its conditions.
type candidate struct {
	Backend
	ready, serving, terminating bool
	zones, nodes                []string // hints
}

// pick gives the backends of one family. Ready ones are used; if there is none, those that terminate but still serve.
// Topology hints count only where every ready endpoint has some and one of them names this place.
func (b *backendSets) pick(v6, localOnly bool) []Backend {
	var ready, leaving []candidate
	for _, c := range b.candidates(v6) {
		if localOnly && !c.Local {
			continue
		}
		switch {
		case c.ready:
			ready = append(ready, c)
		case c.serving && c.terminating:
			leaving = append(leaving, c)
		}
	}
	if !localOnly {
		ready = b.near(ready)
	}
	if len(ready) == 0 {
		ready = leaving
	}
	out := make([]Backend, 0, len(ready))
	for _, c := range ready {
		out = append(out, c.Backend)
	}
	return out
}

// candidates merges the slices: an address that is in two of them is one endpoint, the ready entry wins.
func (b *backendSets) candidates(v6 bool) []candidate {
	wanted := discoveryv1.AddressTypeIPv4
	if v6 {
		wanted = discoveryv1.AddressTypeIPv6
	}
	found := map[string]candidate{}
	for _, s := range b.slices {
		if s.AddressType != wanted {
			continue
		}
		number, ok := b.targetPort(s)
		if !ok {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if len(e.Addresses) == 0 {
				continue
			}
			addr, err := netip.ParseAddr(e.Addresses[0])
			if err != nil {
				continue
			}
			c := candidateOf(e, b.node)
			c.Addr, c.Port = addr, number
			key := fmt.Sprintf("%s %d", addr, number)
			if old, double := found[key]; !double || c.ready && !old.ready {
				found[key] = c
			}
		}
	}
	out := make([]candidate, 0, len(found))
	for _, c := range found {
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y candidate) int { return cmp.Or(x.Addr.Compare(y.Addr), cmp.Compare(x.Port, y.Port)) })
	return out
}

func candidateOf(e *discoveryv1.Endpoint, node Node) candidate {
	c := candidate{
		ready:       e.Conditions.Ready == nil || *e.Conditions.Ready,
		terminating: e.Conditions.Terminating != nil && *e.Conditions.Terminating,
	}
	c.serving = c.ready
	if e.Conditions.Serving != nil {
		c.serving = *e.Conditions.Serving
	}
	c.Local = e.NodeName != nil && strings.EqualFold(*e.NodeName, node.Name)
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			c.zones = append(c.zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			c.nodes = append(c.nodes, n.Name)
		}
	}
	return c
}

// targetPort finds the slice's number for the service port.
func (b *backendSets) targetPort(s *discoveryv1.EndpointSlice) (uint16, bool) {
	for _, p := range s.Ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if name == b.port.Name && protocol == b.port.Protocol && p.Port != nil {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

// near applies topology hints: of this node, else of its zone, else none.
func (b *backendSets) near(all []candidate) []candidate {
	choose := func(place string, hints func(candidate) []string) []candidate {
		var out []candidate
		for _, c := range all {
			if len(hints(c)) == 0 || place == "" {
				return nil
			}
			if slices.Contains(hints(c), place) {
				out = append(out, c)
			}
		}
		return out
	}
	if got := choose(b.node.Name, func(c candidate) []string { return c.nodes }); len(got) > 0 {
		return got
	}
	if got := choose(b.node.Zone, func(c candidate) []string { return c.zones }); len(got) > 0 {
		return got
	}
	return all
}
