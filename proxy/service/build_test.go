package service

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Builders of services and slices, so that a test case is one line.

type (
	serviceOption func(*corev1.Service)
	sliceOption   func(*discoveryv1.EndpointSlice)
)

// svc is a service of port 80 named "http" with one cluster IP.
func svc(name string, options ...serviceOption) *corev1.Service {
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		namespace, short = "ns", name
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: short}}
	s.Spec.Type = corev1.ServiceTypeClusterIP
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}
	ips("10.96.0.1")(s)
	for _, o := range options {
		o(s)
	}
	return s
}

func ips(all ...string) serviceOption {
	return func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = all[0], all, nil
		for _, ip := range all {
			family := corev1.IPv4Protocol
			if strings.Contains(ip, ":") {
				family = corev1.IPv6Protocol
			}
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, family)
		}
	}
}

// ports are "name number[/protocol][ nodePort]".
func ports(all ...string) serviceOption {
	return func(s *corev1.Service) {
		s.Spec.Ports = nil
		for _, text := range all {
			words := strings.Fields(text)
			number, protocol, _ := strings.Cut(words[1], "/")
			p := corev1.ServicePort{Name: words[0], Port: int32(atoi(number)),
				Protocol: corev1.Protocol(strings.ToUpper(protocol))}
			if protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
			if len(words) > 2 {
				p.NodePort = int32(atoi(words[2]))
			}
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
	}
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func typ(t corev1.ServiceType) serviceOption {
	return func(s *corev1.Service) { s.Spec.Type = t }
}

// loadBalancer sets the type LoadBalancer, with node port 30080 on the first port.
func loadBalancer(ingress ...string) serviceOption {
	return func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.Ports[0].NodePort = 30080
		for _, ip := range ingress {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func externalIPs(all ...string) serviceOption {
	return func(s *corev1.Service) { s.Spec.ExternalIPs = all }
}

func externalLocal(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Spec.HealthCheckNodePort = 31000
	}
}

func internalLocal(s *corev1.Service) {
	l := corev1.ServiceInternalTrafficPolicyLocal
	s.Spec.InternalTrafficPolicy = &l
}

func affinity(seconds int32) serviceOption {
	return func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

func ranges(all ...string) serviceOption {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = all }
}

func label(key, value string) serviceOption {
	return func(s *corev1.Service) { metav1.SetMetaDataLabel(&s.ObjectMeta, key, value) }
}

func annotation(key, value string) serviceOption {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

func createdAt(seconds int64) serviceOption {
	return func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(time.Unix(seconds, 0)) }
}

// eps is a slice of service web whose port "http" is 8080. Endpoints are "address [node] [word…]" with the words
// notready, unserving, terminating, published, unset (conditions not given), zone=Z and for=NODE.
func eps(name string, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4}
	to("http 8080")(s)
	for _, text := range endpoints {
		s.Endpoints = append(s.Endpoints, endpointOf(text))
	}
	if len(endpoints) > 0 && strings.Contains(s.Endpoints[0].Addresses[0], ":") {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	return s
}

func endpointOf(text string) discoveryv1.Endpoint {
	words := strings.Fields(text)
	ready, serving, terminating := true, true, false
	e := discoveryv1.Endpoint{Addresses: words[:1],
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}}
	hints := &discoveryv1.EndpointHints{}

	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "ready":
		case "notready":
			ready = false
		case "unserving":
			ready, serving = false, false
		case "terminating":
			ready, terminating = false, true
		case "unset":
			e.Conditions = discoveryv1.EndpointConditions{}
		case "published": // although it terminates
			terminating = true
		case "zone":
			hints.ForZones = append(hints.ForZones, discoveryv1.ForZone{Name: value})
		case "for":
			hints.ForNodes = append(hints.ForNodes, discoveryv1.ForNode{Name: value})
		default:
			e.NodeName = &w
		}
	}
	if len(hints.ForZones)+len(hints.ForNodes) > 0 {
		e.Hints = hints
	}
	return e
}

// to replaces the ports: "name number[/protocol]".
func to(all ...string) sliceOption {
	return func(s *discoveryv1.EndpointSlice) {
		s.Ports = nil
		for _, text := range all {
			words := strings.Fields(text)
			number, protocol, _ := strings.Cut(words[1], "/")
			name, n, p := words[0], int32(atoi(number)), corev1.Protocol(strings.ToUpper(protocol))
			if protocol == "" {
				p = corev1.ProtocolTCP
			}
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: &n, Protocol: &p})
		}
	}
}

func with(s *discoveryv1.EndpointSlice, options ...sliceOption) *discoveryv1.EndpointSlice {
	for _, o := range options {
		o(s)
	}
	return s
}

func of(service string) sliceOption {
	return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = service }
}

func triggered(at string) sliceOption {
	return func(s *discoveryv1.EndpointSlice) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1.EndpointsLastChangeTriggerTime, at)
	}
}

// text writes states so that a test can say what it expects: one line per frontend, health check and problem.
func text(states []State) string {
	var b strings.Builder
	list := func(backends []Backend) string {
		var out []string
		for _, x := range backends {
			word := fmt.Sprintf("%s:%d", x.Addr, x.Port)
			if x.Local {
				word += "*"
			}
			out = append(out, word)
		}

		return strings.Join(out, " ")
	}

	for _, s := range states {
		for _, f := range s.Frontends {
			fmt.Fprintf(&b, "%s %s %s -> %s", strings.TrimPrefix(s.Service, "ns/"), f.Kind, f.Key, list(f.Backends))
			if f.InternalBackends != nil {
				fmt.Fprintf(&b, " | internal %s", list(f.InternalBackends))
			}
			if f.Affinity {
				fmt.Fprintf(&b, " affinity %s", f.AffinityTimeout)
			}
			if f.PreserveDestination {
				b.WriteString(" preserve")
			}
			if len(f.SourceRanges) > 0 {
				fmt.Fprintf(&b, " from %v", f.SourceRanges)
			}
			b.WriteString("\n")
		}
		if h := s.HealthCheck; h != nil {
			fmt.Fprintf(&b, "%s health %d = %d\n", strings.TrimPrefix(h.Service, "ns/"), h.Port, h.LocalEndpoints)
		}
		for _, p := range s.Problems {
			fmt.Fprintf(&b, "%s problem %s\n", strings.TrimPrefix(p.Service, "ns/"), p.Reason)
		}
		if s.Empty() {
			fmt.Fprintf(&b, "%s gone\n", strings.TrimPrefix(s.Service, "ns/"))
		}
	}

	return b.String()
}
