package matrix

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ready endpoints, by the names of the pods: l1, r2, …; n1 and n2 are the nodes, out is a server of the outside world.
func readyEndpoints(names ...string) []discoveryv1.Endpoint {
	var out []discoveryv1.Endpoint
	for _, name := range names {
		ready := true
		e := discoveryv1.Endpoint{Addresses: []string{backendAddrs()[name]},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
		switch node := nodeName; {
		case name == "n1" || name[0] == 'l':
			e.NodeName = &node
		case name != "out":
			node = remoteName
			e.NodeName = &node
		}
		out = append(out, e)
	}
	return out
}

// backendAddrs returns the address of each server.
func backendAddrs() map[string]string {
	out := map[string]string{"n1": nodeIP, "n2": remoteIP, "out": outIP}
	for i := 1; i <= len(conditions); i++ {
		out[fmt.Sprintf("l%d", i)] = podAddr(nodePods, i)
		out[fmt.Sprintf("r%d", i)] = podAddr(remotePods, i)
	}
	return out
}

// specialEntries are the kinds of services that the policies' matrix does not have.
func specialEntries(n *numbering) []entry {
	var out []entry
	add := func(name string, change func(*entry), endpoints ...discoveryv1.Endpoint) {
		e := n.loadBalancer(name, specialClients)
		e.slices = []*discoveryv1.EndpointSlice{sliceOf(name, 0, bothProtocols(mainPort), endpoints...)}
		if change != nil {
			change(&e)
		}
		out = append(out, e)
	}

	add("hairpin-alone", nil, readyEndpoints("l1")...)
	add("hairpin-among-others", nil, readyEndpoints("l1", "l2", "r1")...)
	add("no-slices", func(e *entry) { e.slices = nil })
	add("conditions-not-said", nil, discoveryv1.Endpoint{Addresses: []string{podAddr(nodePods, 1)}},
		discoveryv1.Endpoint{Addresses: []string{podAddr(remotePods, 1)}})
	add("backend-is-this-node", nil, readyEndpoints("n1")...)
	add("backend-is-other-node", nil, readyEndpoints("n2")...)
	add("backend-is-outside", nil, readyEndpoints("out")...)
	add("backends-of-all-sorts", nil, readyEndpoints("l1", "r1", "n2")...)
	add("two-slices", func(e *entry) {
		// l1 is in both
		e.slices = append(e.slices, sliceOf(e.name, 1, bothProtocols(mainPort), readyEndpoints("l1", "r1")...))
	}, readyEndpoints("l1", "l2")...)

	out = append(out, portEntries(n)...)
	out = append(out, hintEntries(n)...)
	return append(out, frontendEntries(n)...)
}

// portEntries: target ports that differ, several ports, ports that only some endpoints have.
func portEntries(n *numbering) []entry {
	differ := n.loadBalancer("target-ports-differ", specialClients)
	differ.slices = []*discoveryv1.EndpointSlice{
		sliceOf(differ.name, 0, bothProtocols(mainPort), readyEndpoints("l1", "r1")...),
		sliceOf(differ.name, 1, bothProtocols(otherPort), readyEndpoints("l2", "r2")...)}

	same := n.loadBalancer("target-ports-differ-on-one-pod", specialClients)
	same.slices = []*discoveryv1.EndpointSlice{
		sliceOf(same.name, 0, bothProtocols(mainPort), readyEndpoints("l1")...),
		sliceOf(same.name, 1, bothProtocols(otherPort), readyEndpoints("l1")...)}

	multi := n.loadBalancer("two-ports", specialClients)
	multi.service.Spec.AllocateLoadBalancerNodePorts = new(bool)
	multi.service.Spec.Ports = append(multi.service.Spec.Ports,
		corev1.ServicePort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 81,
			TargetPort: intstr.FromInt32(otherPort)})
	multi.slices = []*discoveryv1.EndpointSlice{
		sliceOf(multi.name, 0, append(bothProtocols(mainPort), endpointPort("more", corev1.ProtocolTCP, otherPort)),
			readyEndpoints("l1", "r1")...)}
	for _, f := range []front{{kind: clusterIP, addr: multi.service.Spec.ClusterIP + ":81",
		clients: []string{fromPod, fromNode, fromBackend}},
		{kind: ingressIP, addr: multi.ingress[0].IP + ":81", clients: specialClients}} {
		f.proto = "tcp"
		multi.fronts = append(multi.fronts, f)
	}

	partial := n.loadBalancer("port-of-some-endpoints", specialClients)
	partial.slices = []*discoveryv1.EndpointSlice{
		sliceOf(partial.name, 0, bothProtocols(mainPort)[:1], readyEndpoints("l1")...),
		sliceOf(partial.name, 1, bothProtocols(mainPort)[1:], readyEndpoints("r1")...)}
	return []entry{differ, same, multi, partial}
}

// hintEntries: topology hints and trafficDistribution. The node is in zone.
func hintEntries(n *numbering) []entry {
	zoned := func(e discoveryv1.Endpoint, zones ...string) discoveryv1.Endpoint {
		e.Hints = &discoveryv1.EndpointHints{}
		for _, z := range zones {
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: z})
		}
		return e
	}
	noded := func(e discoveryv1.Endpoint, node string, zones ...string) discoveryv1.Endpoint {
		e = zoned(e, zones...)
		e.Hints.ForNodes = []discoveryv1.ForNode{{Name: node}}
		return e
	}

	r := func(name string) discoveryv1.Endpoint { return readyEndpoints(name)[0] }
	close, sameNode := corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameNode
	serving := conditions[1]
	var out []entry
	add := func(name string, distribution *string, change func(*entry), endpoints ...discoveryv1.Endpoint) {
		e := n.loadBalancer(name, specialClients)
		e.service.Spec.TrafficDistribution = distribution
		e.slices = []*discoveryv1.EndpointSlice{sliceOf(name, 0, bothProtocols(mainPort), endpoints...)}
		if change != nil {
			change(&e)
		}
		out = append(out, e)
	}

	add("hints-of-zone", &close, nil, zoned(r("l1"), otherZone), zoned(r("r1"), zone), zoned(r("r2"), otherZone, zone))
	add("hints-of-some-only", &close, nil, zoned(r("l1"), zone), r("r1"))
	add("hints-of-no-zone-here", &close, nil, zoned(r("l1"), otherZone), zoned(r("r1"), otherZone))
	add("hints-without-distribution", nil, nil, zoned(r("l1"), zone), zoned(r("r1"), otherZone))
	add("hints-of-node", &sameNode, nil, noded(r("l1"), nodeName, zone), noded(r("r1"), remoteName, zone))
	add("hints-of-other-node", &sameNode, nil, noded(r("r1"), remoteName, zone), noded(r("r2"), remoteName, otherZone))
	add("hints-and-local-policies", &close, func(e *entry) { e.policies(true, true) },
		zoned(r("l1"), otherZone), zoned(r("l2"), zone), zoned(r("r1"), zone))
	add("hints-on-terminating", &close, nil, zoned(endpoint(serving, true), zone), zoned(r("r1"), otherZone))

	add("hints-on-terminating-only", &close, nil, zoned(endpoint(serving, true), otherZone),
		zoned(endpoint(serving, false), zone))
	return out
}

// frontendEntries: what a service can say about its frontends.
func frontendEntries(n *numbering) []entry {
	var out []entry
	add := func(name string, change func(*entry)) *entry {
		e := n.loadBalancer(name, specialClients)
		e.slices = []*discoveryv1.EndpointSlice{sliceOf(name, 0, bothProtocols(mainPort),
			readyEndpoints("l1", "l2", "r1", "r2")...)}
		change(&e)
		out = append(out, e)
		return &out[len(out)-1]
	}
	sticky := func(e *entry) {
		e.service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		seconds := int32(120)
		e.service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		for i := range e.fronts {
			e.fronts[i].sticky = e.fronts[i].kind != healthPort
		}
	}

	add("affinity", sticky)
	add("affinity-local", func(e *entry) { e.policies(true, true); sticky(e) })
	add("ingress-mode-proxy", func(e *entry) { mode := corev1.LoadBalancerIPModeProxy; e.ingress[0].IPMode = &mode })
	add("ingress-mode-vip", func(e *entry) { mode := corev1.LoadBalancerIPModeVIP; e.ingress[0].IPMode = &mode })
	add("ingress-is-a-name", func(e *entry) { e.ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}} })
	add("source-ranges-with-client", func(e *entry) {
		e.service.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", podRange, "10.98.0.0/24"}
	})
	add("source-ranges-without-client",
		func(e *entry) { e.service.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })

	add("sctp-beside-others", func(e *entry) {
		e.service.Spec.Ports = append(e.service.Spec.Ports,
			corev1.ServicePort{Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 80,
				NodePort: int32(firstNodePort + 2*n.next), TargetPort: intstr.FromInt32(mainPort)})
		n.next++
		e.slices[0].Ports = append(e.slices[0].Ports, endpointPort("sctp", corev1.ProtocolSCTP, mainPort))
	})
	add("served-by-another-proxy", func(e *entry) {
		e.service.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
	})

	add("no-node-ports", func(e *entry) {
		e.service.Spec.AllocateLoadBalancerNodePorts = new(bool)
		for i := range e.service.Spec.Ports {
			e.service.Spec.Ports[i].NodePort = 0
		}
		e.fronts = slices.DeleteFunc(e.fronts, func(f front) bool { return f.kind == nodePort })
	})
	add("external-name", func(e *entry) {
		e.service.Spec.Type, e.service.Spec.ExternalName, e.service.Spec.ClusterIP = corev1.ServiceTypeExternalName,
			"example.com", ""
		for i := range e.service.Spec.Ports {
			e.service.Spec.Ports[i].NodePort = 0
		}
		e.ingress = nil
		e.fronts = slices.DeleteFunc(e.fronts, func(f front) bool { return f.kind != externalIP })
	})

	add("headless", func(e *entry) {
		e.service.Spec.Type, e.service.Spec.ClusterIP = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone
		for i := range e.service.Spec.Ports {
			e.service.Spec.Ports[i].NodePort = 0
		}
		e.ingress = nil
		e.fronts = slices.DeleteFunc(e.fronts, func(f front) bool { return f.kind != externalIP })
	})

	return out
}

// sentinel comes last of all and works from everywhere once a proxy has come that far.
func sentinel(n *numbering) entry {
	e := n.loadBalancer("zz-sentinel", specialClients)
	e.slices = []*discoveryv1.EndpointSlice{sliceOf(e.name, 0, bothProtocols(mainPort), readyEndpoints("r1")...)}
	e.service.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: e.name}
	return e
}
