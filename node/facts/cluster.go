package facts

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/path"
)

// ReadCluster reads the nodes, pods, Services, EndpointSlices and ServiceCIDRs of the cluster that a kubeconfig file
// names. Pods without a node and endpoints that do not serve are left out. The ranges of Services are optional: no
// error if they cannot be read.
func ReadCluster(ctx context.Context, kubeconfig string) (c path.Cluster, err error) {
	client, err := kube.NewCluster(kubeconfig)
	if err != nil {
		return c, err
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return c, err
	}
	pods, err := client.Pods(ctx, "", "")
	if err != nil {
		return c, err
	}
	services, err := client.Services(ctx, "")
	if err != nil {
		return c, err
	}
	endpointSlices, err := client.EndpointSlices(ctx, "")
	if err != nil {
		return c, err
	}
	// Only to tell the outside from an address that no service has; a cluster without this kind is followed all the
	// same.
	c.ServiceRanges, _ = client.ServiceRanges(ctx)

	for i := range nodes {
		c.Nodes = append(c.Nodes, toNode(&nodes[i]))
	}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			c.Pods = append(c.Pods, toPod(&pods[i]))
		}
	}
	for i := range services {
		c.Services = append(c.Services, toServices(&services[i], endpointSlices)...)
	}
	return c, nil
}

// toNode takes the first internal address for the node's own, and others for those of another
// family.
func toNode(n *v1.Node) path.ClusterNode {
	out := path.ClusterNode{Name: n.Name, System: n.Labels[v1.LabelOSStable], Zone: n.Labels[v1.LabelTopologyZone]}
	for _, text := range append(slices.Clone(n.Spec.PodCIDRs), n.Spec.PodCIDR) {
		if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(out.PodCIDRs, p.Masked()) {
			out.PodCIDRs = append(out.PodCIDRs, p.Masked())
		}
	}
	for _, a := range n.Status.Addresses {
		addr, err := netip.ParseAddr(a.Address)
		switch {
		case err != nil || a.Type != v1.NodeInternalIP:
		case !out.Address.IsValid():
			out.Address = addr.Unmap()
		default:
			out.Others = append(out.Others, addr.Unmap())
		}
	}
	return out
}

// toPod names the reason of the first container that waits.
func toPod(p *v1.Pod) path.Pod {
	out := path.Pod{Name: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork,
		Phase: string(p.Status.Phase)}
	// the address of an ended pod may be another's by now
	if p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
		out.Address, _ = netip.ParseAddr(p.Status.PodIP)
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil && a != out.Address {
				out.Others = append(out.Others, a)
			}
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil && out.Waiting == "" {
			out.Waiting = c.State.Waiting.Reason
		}
	}
	return out
}

// toServices returns one path.Service for each port, and one more where outside addresses have another traffic policy.
func toServices(s *v1.Service, all []discoveryv1.EndpointSlice) (out []path.Service) {
	var inside, outside []netip.Addr
	add := func(to *[]netip.Addr, texts ...string) {
		for _, text := range texts {
			if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(*to, a) {
				*to = append(*to, a)
			}
		}
	}
	// The single fields are those of the lists' first elements; add leaves out what is there
	// already.
	add(&inside, append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ClusterIP)...)
	add(&outside, s.Spec.ExternalIPs...)
	for _, in := range s.Status.LoadBalancer.Ingress {
		add(&outside, in.IP)
	}
	localInside := s.Spec.InternalTrafficPolicy != nil &&
		*s.Spec.InternalTrafficPolicy == v1.ServiceInternalTrafficPolicyLocal
	localOutside := s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal

	headless := s.Spec.ClusterIP == v1.ClusterIPNone
	if s.Spec.Type == v1.ServiceTypeExternalName || headless && len(s.Spec.Ports) == 0 {
		return []path.Service{{Name: s.Namespace + "/" + s.Name, ExternalName: s.Spec.ExternalName, Headless: headless,
			Backends: backendsOf(s, "", all)}}
	}
	for _, p := range s.Spec.Ports {
		one := path.Service{Name: s.Namespace + "/" + s.Name, Protocol: strings.ToLower(string(p.Protocol)),
			Port:      uint16(p.Port),
			Addresses: inside, Local: localInside, Headless: headless, Backends: backendsOf(s, p.Name, all)}
		out = append(out, one)
		// Node ports and outside addresses have the traffic policy of outside.
		if len(outside) > 0 || p.NodePort != 0 {
			one.Addresses = outside
			one.NodePort = uint16(p.NodePort)
			one.Local = localOutside
			one.External = true
			out = append(out, one)
		}
	}
	return out
}

// backendsOf returns the endpoints of a service's port that are ready, or that serve while they terminate.
func backendsOf(s *v1.Service, port string, all []discoveryv1.EndpointSlice) (out []path.Backend) {
	for _, es := range all {
		if es.Namespace != s.Namespace || es.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		for _, p := range es.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != port {
				continue
			}
			for i := range es.Endpoints {
				if b, ok := toBackend(&es.Endpoints[i], uint16(*p.Port)); ok {
					out = append(out, b)
				}
			}
		}
	}
	return out
}

// toBackend reports false for an endpoint that gets no packets. Of conditions that are not set the API says: ready,
// serving, not terminating.
func toBackend(e *discoveryv1.Endpoint, port uint16) (b path.Backend, ok bool) {
	addr, err := netip.ParseAddr(e.Addresses[0])
	if err != nil {
		return b, false
	}
	is := func(condition *bool, unset bool) bool {
		if condition == nil {
			return unset
		}
		return *condition
	}
	b.Address = netip.AddrPortFrom(addr, port)
	if !is(e.Conditions.Ready, true) {
		b.Terminating = is(e.Conditions.Serving, true) && is(e.Conditions.Terminating, false)
		if !b.Terminating {
			return b, false
		}
	}
	if e.NodeName != nil {
		b.Node = *e.NodeName
	}

	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			b.ForZones = append(b.ForZones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			b.ForNodes = append(b.ForNodes, n.Name)
		}
	}
	return b, true
}
