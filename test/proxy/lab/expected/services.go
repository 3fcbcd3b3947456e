package expected

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Host is what a host's frontends depend on.
type Host struct {
	// Name of its Node object.
	Name string
	// Addr and Addr6 are its own addresses; Addr6 may be invalid.
	Addr, Addr6 netip.Addr
	// IPv6: the pods' network has IPv6. Without it no frontend has.
	IPv6 bool
}

// frontends are what services imply, or what HNS has: backends by "VIP/protocol/port", sorted and joined. The VIP of a
// node port is empty, in IPv6 it is "::".
type frontends map[string]string

// of works out the host's frontends, and those that it may have besides.
func (h Host) of(services []corev1.Service, list []discoveryv1.EndpointSlice) (want, optional frontends) {
	byService := map[string][]discoveryv1.EndpointSlice{}
	for _, e := range list {
		name := e.Namespace + "/" + e.Labels[discoveryv1.LabelServiceName]
		byService[name] = append(byService[name], e)
	}

	want, optional = frontends{}, frontends{}
	for _, s := range services {
		if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone ||
			s.Labels["service.kubernetes.io/service-proxy-name"] != "" {
			continue
		}
		for _, p := range s.Spec.Ports {
			if protocols[p.Protocol] != 0 {
				port := portOf{h, &s, p, byService[s.Namespace+"/"+s.Name]}
				maps.Copy(want, port.implied())
				maps.Copy(optional, port.inCluster())
			}
		}
	}
	return want, optional
}

// protocols by HNS's number (IANA).
var protocols = map[corev1.Protocol]int{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17}

// portOf is one port of a service on a host, with the service's slices.
type portOf struct {
	host    Host
	service *corev1.Service
	port    corev1.ServicePort
	slices  []discoveryv1.EndpointSlice
}

// local reports whether the external traffic policy is Local.
func (p portOf) local() bool {
	return p.service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// set adds a frontend that has backends.
func (p portOf) set(out frontends, vip string, v6 bool, port int32, onlyLocal bool) {
	if v6 && !p.host.IPv6 {
		return
	}
	if backends := p.usable(onlyLocal, v6); backends != "" {
		out[fmt.Sprintf("%s/%d/%d", vip, protocols[p.port.Protocol], port)] = backends
	}
}

// implied returns the frontends that must be there.
func (p portOf) implied() frontends {
	out := frontends{}
	add := func(vip string, onlyLocal bool) {
		if a, err := netip.ParseAddr(vip); err == nil {
			p.set(out, a.String(), a.Is6(), p.port.Port, onlyLocal)
		}
	}
	inside := p.service.Spec.InternalTrafficPolicy
	for _, ip := range p.service.Spec.ClusterIPs {
		add(ip, inside != nil && *inside == corev1.ServiceInternalTrafficPolicyLocal)
	}
	if p.port.NodePort != 0 {
		for _, family := range p.service.Spec.IPFamilies {
			v6 := family == corev1.IPv6Protocol
			p.set(out, nodePortVIP(v6), v6, p.port.NodePort, p.local())
		}
	}

	for _, ip := range p.service.Spec.ExternalIPs {
		add(ip, p.local())
	}
	for _, in := range p.service.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			add(in.IP, p.local())
		}
	}
	return out
}

// inCluster are the frontends that may be there for clients in the cluster: node ports at the host's own addresses,
// for its programs; outside clients reach them too, so the external policy holds. And, whatever that policy says,
// addresses from outside for which the host has no backend of its own.
func (p portOf) inCluster() frontends {
	out := frontends{}
	for _, addr := range []netip.Addr{p.host.Addr, p.host.Addr6} {
		if p.port.NodePort != 0 && addr.IsValid() {
			p.set(out, addr.String(), addr.Is6(), p.port.NodePort, p.local())
		}
	}
	if !p.local() {
		return out
	}
	external := slices.Clone(p.service.Spec.ExternalIPs)
	for _, in := range p.service.Status.LoadBalancer.Ingress {
		external = append(external, in.IP)
	}
	for _, ip := range external {
		if a, err := netip.ParseAddr(ip); err == nil && p.usable(true, a.Is6()) == "" {
			p.set(out, a.String(), a.Is6(), p.port.Port, false)
		}
	}
	return out
}

// usable returns the ready endpoints. Without any, it returns those that terminate and still serve.
func (p portOf) usable(onlyLocal, v6 bool) string {
	var ready, serving []string
	port := int32(0)
	for _, e := range p.slices {
		if (e.AddressType == discoveryv1.AddressTypeIPv6) != v6 {
			continue
		}
		for _, ep := range e.Ports {
			if ep.Port == nil || ep.Name != nil && *ep.Name != p.port.Name ||
				ep.Protocol != nil && *ep.Protocol != p.port.Protocol {
				continue
			}
			port = *ep.Port
			for _, point := range e.Endpoints {
				elsewhere := point.NodeName == nil || *point.NodeName != p.host.Name
				if onlyLocal && elsewhere || len(point.Addresses) == 0 {
					continue
				}
				c := point.Conditions
				switch {
				case c.Ready == nil || *c.Ready:
					ready = append(ready, point.Addresses[0])
				case c.Serving != nil && *c.Serving && c.Terminating != nil && *c.Terminating:
					serving = append(serving, point.Addresses[0])
				}
			}
		}
	}

	if len(ready) == 0 {
		ready = serving
	}
	if len(ready) == 0 {
		return ""
	}
	slices.Sort(ready)
	return fmt.Sprintf("%s port %d", strings.Join(slices.Compact(ready), ","), port)
}
