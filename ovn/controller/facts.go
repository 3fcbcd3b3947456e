package controller

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/podranges"
	"porthole.dev/porthole/ovn/nb"
)

// factsOf translates the objects of the API. It leaves out pods in the host's network, pods that have ended, and
// services without addresses.
func factsOf(c source, cluster podranges.Cluster) nb.Facts {
	f := nb.Facts{Cluster: cluster}
	for _, n := range c.Nodes() {
		node := nb.Node{Name: n.Name, Since: n.CreationTimestamp.Time,
			Windows: n.Labels[corev1.LabelOSStable] == "windows"}
		for _, text := range append(slices.Clone(n.Spec.PodCIDRs), n.Spec.PodCIDR) {
			if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() && !node.Subnet.IsValid() {
				node.Subnet = p.Masked()
			}
		}
		f.Nodes = append(f.Nodes, node)
	}

	for _, p := range c.Pods() {
		if !networked(p) {
			continue
		}
		pod := nb.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName}
		if text := p.Annotations[ovnet.Annotation]; text != "" {
			// an annotation that cannot be read is written again
			if a, subnet, _, err := ovnet.ParseAnnotation(text); err == nil {
				pod.Given = a
				if p.Status.PodIP == a.IP.String() && !madeByNode(p) {
					pod.Range = subnet
				}
			}
		}
		f.Pods = append(f.Pods, pod)
	}

	slicesOf := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range c.Slices() {
		key := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		slicesOf[key] = append(slicesOf[key], s)
	}
	for _, s := range c.Services() {
		if service := serviceOf(s, slicesOf[s.Namespace+"/"+s.Name]); len(service.VIPs) > 0 {
			f.Services = append(f.Services, service)
		}
	}
	slices.SortFunc(f.Services, func(a, b nb.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return f
}

// madeByNode reports whether a node made the pod: a static pod's mirror, the only kind that the API server lets it
// make. Then nothing in the pod is by anybody else.
func madeByNode(p *corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || slices.ContainsFunc(p.OwnerReferences,
		func(o metav1.OwnerReference) bool { return o.Kind == "Node" })
}

// networked reports whether a pod needs a port.
func networked(p *corev1.Pod) bool {
	return !p.Spec.HostNetwork && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded &&
		p.Status.Phase != corev1.PodFailed
}

// serviceOf translates a service: its addresses in the cluster, of load balancers and from outside, and for each port
// the endpoints that are ready.
func serviceOf(s *corev1.Service, list []*discoveryv1.EndpointSlice) nb.Service {
	out := nb.Service{Namespace: s.Namespace, Name: s.Name}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return out
	}
	addresses := append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ClusterIP)
	addresses = append(addresses, s.Spec.ExternalIPs...)
	for _, in := range s.Status.LoadBalancer.Ingress {
		addresses = append(addresses, in.IP)
	}
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && a.Is4() && !slices.Contains(out.VIPs, a) {
			out.VIPs = append(out.VIPs, a)
		}
	}

	for _, p := range s.Spec.Ports {
		port := nb.Port{Protocol: strings.ToLower(string(p.Protocol)), Port: uint16(p.Port)}
		if port.Protocol == "" {
			port.Protocol = "tcp"
		}
		for _, slice := range list {
			port.Backends = append(port.Backends, backends(slice, p)...)
		}
		out.Ports = append(out.Ports, port)
	}
	return out
}

// backends returns the ready endpoints of a slice for one port of the service. An endpoint that does not say whether
// it is ready is.
func backends(slice *discoveryv1.EndpointSlice, port corev1.ServicePort) []netip.AddrPort {
	if slice.AddressType != discoveryv1.AddressTypeIPv4 {
		return nil
	}
	var out []netip.AddrPort
	for _, p := range slice.Ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if name != port.Name || p.Port == nil || protocol != cmp.Or(port.Protocol, corev1.ProtocolTCP) {
			continue
		}

		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, text := range e.Addresses {
				if a, err := netip.ParseAddr(text); err == nil {
					out = append(out, netip.AddrPortFrom(a, uint16(*p.Port)))
				}
			}
		}
	}
	return out
}
