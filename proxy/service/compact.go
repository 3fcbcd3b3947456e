package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netutils "k8s.io/utils/net"

	"porthole.dev/porthole/hns"
)

// preserveDestination is upstream's annotation: packets reach the pod with the frontend's address as destination.
const preserveDestination = "preserve-destination"

// Labels of services, and of their slices, that upstream's proxy does not serve (pkg/proxy/apis/well_known_labels.go).
const (
	labelOtherProxy = "service.kubernetes.io/service-proxy-name"
	labelHeadless   = "service.kubernetes.io/headless"
)

// defaultAffinity is the API's default timeout of client IP affinity (core/v1 DefaultClientIPServiceAffinitySeconds).
const defaultAffinity = 10800 * time.Second

// wanted is what a proxy needs to know of a Service.
type wanted struct {
	created int64 // Unix seconds
	rank    uint8
	// externalLocal and internalLocal are the traffic policies; preserve is the annotation.
	externalLocal, internalLocal, preserve bool
	// elsewhere: an annotation says that the source ranges are enforced elsewhere.
	elsewhere  bool
	healthPort uint16
	affinity   time.Duration
	ports      []port
	cluster    []netip.Addr // one per family at most, in the service's order
	*rare
}

// rare are the fields that are empty for most services; those services share one value.
type rare struct {
	external, ingress []netip.Addr
	ranges            []netip.Prefix
	problems          []Problem
}

var nothingRare = &rare{}

func (r *rare) empty() bool {
	return len(r.external)+len(r.ingress)+len(r.ranges)+len(r.problems) == 0
}

type port struct {
	name             string
	protocol         hns.Protocol
	number, nodePort uint16
}

func (w *wanted) equal(o *wanted) bool {
	if w == nil || o == nil {
		return w == o
	}
	return w.created == o.created && w.rank == o.rank &&
		w.externalLocal == o.externalLocal && w.internalLocal == o.internalLocal && w.preserve == o.preserve &&
		w.elsewhere == o.elsewhere && w.healthPort == o.healthPort && w.affinity == o.affinity &&
		slices.Equal(w.ports, o.ports) && slices.Equal(w.cluster, o.cluster) && slices.Equal(w.external, o.external) &&
		slices.Equal(w.ingress, o.ingress) && slices.Equal(w.ranges, o.ranges) && slices.Equal(w.problems, o.problems)
}

// foreign reports whether labels assign an object to another proxy, or to none.
func foreign(labels map[string]string) bool {
	_, other := labels[labelOtherProxy]
	_, headless := labels[labelHeadless]
	return other || headless
}

// compactService returns nil for a service that this proxy does not serve.
func compactService(s *corev1.Service) *wanted {
	if foreign(s.Labels) || s.Spec.Type == corev1.ServiceTypeExternalName ||
		s.Spec.ClusterIP == corev1.ClusterIPNone || s.Spec.ClusterIP == "" {
		return nil
	}

	name := s.Namespace + "/" + s.Name
	w := &wanted{created: s.CreationTimestamp.Unix(), rank: rankOf(s),
		preserve:  s.Annotations[preserveDestination] == "true",
		elsewhere: s.Annotations[SourceRangesAnnotation] == string(Elsewhere), rare: &rare{}}
	external := s.Spec.Type == corev1.ServiceTypeLoadBalancer || s.Spec.Type == corev1.ServiceTypeNodePort ||
		len(s.Spec.ExternalIPs) > 0
	w.externalLocal = external && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	w.internalLocal = s.Spec.InternalTrafficPolicy != nil &&
		*s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		w.affinity = affinityOf(s)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && w.externalLocal {
		w.healthPort = uint16(s.Spec.HealthCheckNodePort)
	}

	problem := func(reason, format string, args ...any) {
		w.problems = append(w.problems, Problem{name, reason, fmt.Sprintf(format, args...)})
	}
	w.addPorts(s, problem)
	w.addAddresses(s, problem)
	if w.empty() {
		w.rare = nothingRare
	}
	return w
}

func (w *wanted) addPorts(s *corev1.Service, problem func(reason, format string, args ...any)) {
	w.ports = make([]port, 0, len(s.Spec.Ports))
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		protocol, ok := protocolOf(p.Protocol)
		if !ok {
			problem(ReasonProtocol, "port %d is not served on Windows: HNS has no load balancing for %s", p.Port,
				p.Protocol)
			continue
		}
		w.ports = append(w.ports,
			port{name: intern(p.Name), protocol: protocol, number: uint16(p.Port), nodePort: uint16(p.NodePort)})
	}
}

// addAddresses adds the addresses of the service's families. Others and empty ones are left out silently, as upstream
// does.
func (w *wanted) addAddresses(s *corev1.Service, problem func(reason, format string, args ...any)) {
	parse := func(what, text string) (netip.Addr, bool) {
		addr, ok := parseAddr(text)
		if !ok && strings.TrimSpace(text) != "" {
			problem(ReasonAddress, "%s %q is not an IP address", what, text)
		}
		return addr, ok
	}

	for _, ip := range clusterIPs(s) {
		if addr, ok := parse("cluster IP", ip); ok && !w.has(addr.Is6()) {
			w.cluster = append(w.cluster, addr)
		}
	}
	for _, ip := range s.Spec.ExternalIPs {
		if addr, ok := parse("external IP", ip); ok && w.has(addr.Is6()) && !slices.Contains(w.external, addr) {
			w.external = append(w.external, addr)
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
		if addr, ok := parse("ingress IP", ingress.IP); ok && w.has(addr.Is6()) && !slices.Contains(w.ingress, addr) {
			w.ingress = append(w.ingress, addr)
		}
	}
	w.ranges = rangesOf(s)
}

// has reports whether the service has a cluster IP of the family.
func (w *wanted) has(v6 bool) bool {
	return slices.ContainsFunc(w.cluster, func(a netip.Addr) bool { return a.Is6() == v6 })
}

// rangesFor returns the ranges of a family; without any, all clients are admitted.
func (w *wanted) rangesFor(v6 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, r := range w.ranges {
		if r.Addr().Is6() == v6 {
			out = append(out, r)
		}
	}
	return out
}

// rangesOf returns the valid source ranges, without those of a family in which one admits all, as upstream does.
func rangesOf(s *corev1.Service) []netip.Prefix {
	var all []netip.Prefix
	open := map[bool]bool{}
	for _, text := range s.Spec.LoadBalancerSourceRanges {
		_, cidr, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text))
		if err != nil {
			continue
		}
		addr, _ := netip.AddrFromSlice(cidr.IP)
		bits, _ := cidr.Mask.Size()
		addr = addr.Unmap()
		open[addr.Is6()] = open[addr.Is6()] || bits == 0
		all = append(all, netip.PrefixFrom(addr, bits))
	}
	return slices.DeleteFunc(all, func(p netip.Prefix) bool { return open[p.Addr().Is6()] })
}

func rankOf(s *corev1.Service) uint8 {
	switch {
	case s.Namespace == "kube-system" && s.Name == "kube-dns", s.Labels["k8s-app"] == "kube-dns":
		return RankDNS
	case s.Namespace == "default" && s.Name == "kubernetes":
		return RankAPI
	case s.Labels["kubernetes.io/cluster-service"] == "true":
		return RankCluster
	}
	return RankOther
}

func affinityOf(s *corev1.Service) time.Duration {
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil &&
		*c.ClientIP.TimeoutSeconds > 0 {
		return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
	}
	return defaultAffinity
}

// clusterIPs returns one address per family of the service. A service from before dual stack has no families.
func clusterIPs(s *corev1.Service) []string {
	if len(s.Spec.IPFamilies) == 0 || len(s.Spec.ClusterIPs) == 0 {
		return []string{s.Spec.ClusterIP}
	}
	return s.Spec.ClusterIPs[:min(len(s.Spec.ClusterIPs), len(s.Spec.IPFamilies))]
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

// parseAddr also accepts leading zeros, which old objects may have.
func parseAddr(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		ip := netutils.ParseIPSloppy(text)
		if ip == nil {
			return netip.Addr{}, false
		}
		addr, _ = netip.AddrFromSlice(ip)
	}
	return addr.Unmap(), addr.Zone() == ""
}

// slice is what a proxy needs to know of an EndpointSlice.
type slice struct {
	name      string
	v6        bool
	ports     []slicePort
	endpoints []endpoint
	hints     []*hints // those that endpoints have, each once
}

type slicePort struct {
	name     string
	protocol hns.Protocol
	number   uint16
}

// endpoint is one address with its conditions.
type endpoint struct {
	addr netip.Addr
	hint uint16 // the index in the slice's hints plus 1; 0: none
	condition
}

type condition uint8

const (
	ready condition = 1 << iota
	serving
	terminating
	local
)

func (c condition) has(all condition) bool { return c&all == all }

// hints are the zones and nodes whose clients an endpoint is meant for.
type hints struct{ zones, nodes []string }

func (h *hints) equal(o *hints) bool {
	if h == nil || o == nil {
		return h == o
	}
	return slices.Equal(h.zones, o.zones) && slices.Equal(h.nodes, o.nodes)
}

func (s *slice) equal(o *slice) bool {
	return s.v6 == o.v6 && slices.Equal(s.ports, o.ports) && slices.Equal(s.endpoints, o.endpoints) &&
		slices.EqualFunc(s.hints, o.hints, (*hints).equal)
}

// hintsOf returns the hints of an endpoint, or nil.
func (s *slice) hintsOf(i int) *hints {
	if n := s.endpoints[i].hint; n > 0 {
		return s.hints[n-1]
	}
	return nil
}

// hint returns the value of endpoint.hint for these hints. It fits 16 bits: the API allows 1,000 endpoints per slice.
func (s *slice) hint(h *hints) uint16 {
	if h == nil {
		return 0
	}
	i := slices.IndexFunc(s.hints, h.equal)
	if i < 0 {
		i = len(s.hints)
		s.hints = append(s.hints, h)
	}
	return uint16(i + 1)
}

// compactSlice returns nil for a slice that no service here can use.
func compactSlice(s *discoveryv1.EndpointSlice, node string) *slice {
	if foreign(s.Labels) || s.Labels[discoveryv1.LabelServiceName] == "" ||
		s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 {
		return nil
	}

	out := &slice{name: s.Name, v6: s.AddressType == discoveryv1.AddressTypeIPv6}
	for _, p := range s.Ports {
		if p.Name == nil || p.Port == nil || *p.Port == 0 {
			continue
		}
		protocol := corev1.ProtocolTCP // the API's default
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if known, ok := protocolOf(protocol); ok {
			out.ports = append(out.ports, slicePort{name: intern(*p.Name), protocol: known, number: uint16(*p.Port)})
		}
	}

	out.endpoints = make([]endpoint, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if len(e.Addresses) == 0 {
			continue
		}
		addr, ok := parseAddr(e.Addresses[0])
		if !ok || addr.Is6() != out.v6 {
			continue
		}
		out.endpoints = append(out.endpoints,
			endpoint{addr: addr, hint: out.hint(hintsOf(e)), condition: conditionOf(e, node)})
	}

	slices.SortStableFunc(out.endpoints, func(a, b endpoint) int {
		return cmp.Or(a.addr.Compare(b.addr), b.preference()-a.preference())
	})
	return out
}

// conditionOf returns the conditions of an endpoint as bits. A condition that is not set has the meaning of the
// EndpointSlice API: ready and serving, and not terminating. An endpoint is local only if both it and we have a node
// name.
func conditionOf(e *discoveryv1.Endpoint, node string) condition {
	var c condition
	set := func(bit condition, value *bool, unset bool) {
		if value == nil && unset || value != nil && *value {
			c |= bit
		}
	}
	set(ready, e.Conditions.Ready, true)
	set(serving, e.Conditions.Serving, true)
	set(terminating, e.Conditions.Terminating, false)
	if e.NodeName != nil && *e.NodeName == node && node != "" {
		c |= local
	}
	return c
}

// preference orders endpoints with one address, larger first. While endpoints move between slices an address may be in
// two, and a terminating pod may have the same address as a new one. The one that does not terminate is preferred,
// then the ready one.
func (e endpoint) preference() int {
	p := 0
	for i, better := range []bool{e.has(local), e.has(serving), e.has(ready), !e.has(terminating)} {
		if better {
			p |= 1 << i
		}
	}
	return p
}

func hintsOf(e *discoveryv1.Endpoint) *hints {
	if e.Hints == nil || len(e.Hints.ForZones) == 0 && len(e.Hints.ForNodes) == 0 {
		return nil
	}
	h := &hints{}
	for _, z := range e.Hints.ForZones {
		h.zones = append(h.zones, intern(z.Name))
	}
	for _, n := range e.Hints.ForNodes {
		h.nodes = append(h.nodes, intern(n.Name))
	}
	return h
}
