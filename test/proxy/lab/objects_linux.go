package lab

import (
	"context"
	"fmt"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Label is what objects carry that an Isolated host sees.
func Label(host string) string { return "proxy-lab/" + host }

// Port of a service, "tcp" or "udp"; target is the pods' port.
func Port(name, protocol string, port, target uint16) corev1.ServicePort {
	p := corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: int32(port),
		TargetPort: intstr.FromInt32(int32(target))}
	if protocol == "udp" {
		p.Protocol = corev1.ProtocolUDP
	}
	return p
}

// Service is one of type ClusterIP in namespace default; the API server chooses the address. Change it as needed.
func Service(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: ports}}
}

// Backend is an endpoint of a slice.
type Backend struct {
	Addr     netip.Addr
	Node     string // that it is on; empty for none
	NotReady bool   // and not serving either
}

// On makes ready backends at a node.
func On(node string, addrs ...netip.Addr) []Backend {
	var list []Backend
	for _, a := range addrs {
		list = append(list, Backend{Addr: a, Node: node})
	}
	return list
}

// Slice is one EndpointSlice of a service with all its ports. suffix tells several slices of a service apart.
func Slice(s *corev1.Service, suffix string, backends ...Backend) *discoveryv1.EndpointSlice {
	e := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		ObjectMeta: metav1.ObjectMeta{Name: s.Name + suffix, Namespace: s.Namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}}
	for _, p := range s.Spec.Ports {
		target := p.TargetPort.IntVal
		if target == 0 {
			target = p.Port
		}
		e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &target})
	}

	for _, b := range backends {
		if b.Addr.Is6() {
			e.AddressType = discoveryv1.AddressTypeIPv6
		}
		point := discoveryv1.Endpoint{Addresses: []string{b.Addr.String()}, Conditions: discoveryv1.EndpointConditions{
			Ready: new(!b.NotReady), Serving: new(!b.NotReady), Terminating: new(false)}}
		if b.Node != "" {
			point.NodeName = &b.Node
		}
		e.Endpoints = append(e.Endpoints, point)
	}

	return e
}

// ApplyService creates a service, or makes it as given; a load balancer's addresses in its status too. It returns what
// the API server made of it. Addresses and node ports that it has chosen are kept if s names none.
func (l *Lab) ApplyService(ctx context.Context, s *corev1.Service) (*corev1.Service, error) {
	api := l.Client.CoreV1().Services(s.Namespace)
	have, err := api.Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if have, err = api.Get(ctx, s.Name, metav1.GetOptions{}); err == nil {
			next := s.DeepCopy()
			next.ResourceVersion = have.ResourceVersion
			have, err = api.Update(ctx, next, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("applying service %s: %w", s.Name, err)
	}
	if len(s.Status.LoadBalancer.Ingress) > 0 {
		have.Status.LoadBalancer = s.Status.LoadBalancer
		if have, err = api.UpdateStatus(ctx, have, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("applying the status of service %s: %w", s.Name, err)
		}
	}
	return have, nil
}

// ApplySlice creates a slice, or makes it as given.
func (l *Lab) ApplySlice(ctx context.Context, e *discoveryv1.EndpointSlice) error {
	api := l.Client.DiscoveryV1().EndpointSlices(e.Namespace)
	_, err := api.Create(ctx, e, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// Without a resource version an update is unconditional.
		_, err = api.Update(ctx, e, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("applying slice %s: %w", e.Name, err)
	}
	return nil
}

// DeleteService deletes a service and its slices. Absent is success.
func (l *Lab) DeleteService(ctx context.Context, namespace, name string) error {
	err := l.Client.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return l.Client.DiscoveryV1().EndpointSlices(namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
}

// ApplyService is the Lab's, with the label that the host sees.
func (h *Host) ApplyService(ctx context.Context, s *corev1.Service) (*corev1.Service, error) {
	s.Labels = h.labelled(s.Labels)
	return h.lab.ApplyService(ctx, s)
}

// ApplySlice is the Lab's, with the label that the host sees.
func (h *Host) ApplySlice(ctx context.Context, e *discoveryv1.EndpointSlice) error {
	e.Labels = h.labelled(e.Labels)
	return h.lab.ApplySlice(ctx, e)
}

func (h *Host) labelled(labels map[string]string) map[string]string {
	out := map[string]string{Label(h.Name): ""}
	maps.Copy(out, labels)
	return out
}

// ClusterAddr is a service's first cluster address with the number of a port.
func ClusterAddr(s *corev1.Service, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(s.Spec.ClusterIP), port)
}

// ClusterAddrs are all of a service's cluster addresses, in its order, with the number of a port.
func ClusterAddrs(s *corev1.Service, port uint16) []netip.AddrPort {
	var out []netip.AddrPort
	for _, ip := range s.Spec.ClusterIPs {
		out = append(out, netip.AddrPortFrom(netip.MustParseAddr(ip), port))
	}
	return out
}
