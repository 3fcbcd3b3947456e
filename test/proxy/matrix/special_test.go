package matrix

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ready endpoints, by the names of the pods: l1, r2, …; n1 and n2 are the nodes, out is a server of the outside world.
func readyEndpoints(names ...string) []discoveryv1.Endpoint {
	var out []discoveryv1.Endpoint
	for _, name := range names {
		e := discoveryv1.Endpoint{Addresses: []string{backendAddrs()[name]},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
		switch {
		case name == "n1" || name[0] == 'l':
			e.NodeName = new(nodeName)
		case name != "out":
			e.NodeName = new(remoteName)
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

// specials collects entries that all clients ask.
type specials struct {
	*numbering
	list []entry
}

// add makes an entry with one slice of these endpoints, and changes it.
func (l *specials) add(name string, change func(*entry), endpoints ...discoveryv1.Endpoint) {
	e := l.loadBalancer(name, specialClients)
	e.slices = []*discoveryv1.EndpointSlice{sliceOf(name, 0, bothProtocols(mainPort), endpoints...)}
	if change != nil {
		change(&e)
	}
	l.list = append(l.list, e)
}

// specialEntries are the kinds of services that the policies' matrix does not have.
func specialEntries(n *numbering) []entry {
	l := &specials{numbering: n}
	l.add("hairpin-alone", nil, readyEndpoints("l1")...)
	l.add("hairpin-among-others", nil, readyEndpoints("l1", "l2", "r1")...)
	l.add("no-slices", func(e *entry) { e.slices = nil })
	l.add("conditions-not-said", nil, discoveryv1.Endpoint{Addresses: []string{podAddr(nodePods, 1)}},
		discoveryv1.Endpoint{Addresses: []string{podAddr(remotePods, 1)}})
	l.add("backend-is-this-node", nil, readyEndpoints("n1")...)
	l.add("backend-is-other-node", nil, readyEndpoints("n2")...)
	l.add("backend-is-outside", nil, readyEndpoints("out")...)
	l.add("backends-of-all-sorts", nil, readyEndpoints("l1", "r1", "n2")...)
	l.add("two-slices", func(e *entry) {
		// l1 is in both
		e.slices = append(e.slices, sliceOf(e.name, 1, bothProtocols(mainPort), readyEndpoints("l1", "r1")...))
	}, readyEndpoints("l1", "l2")...)

	l.ports()
	l.hints()
	l.frontends()
	return l.list
}

// ports: target ports that differ, several ports, ports that only some endpoints have.
func (l *specials) ports() {
	other := func(names ...string) func(*entry) {
		return func(e *entry) {
			e.slices = append(e.slices, sliceOf(e.name, 1, bothProtocols(otherPort), readyEndpoints(names...)...))
		}
	}
	l.add("target-ports-differ", other("l2", "r2"), readyEndpoints("l1", "r1")...)
	l.add("target-ports-differ-on-one-pod", other("l1"), readyEndpoints("l1")...)

	l.add("two-ports", func(e *entry) {
		e.service.Spec.AllocateLoadBalancerNodePorts = new(bool)
		e.service.Spec.Ports = append(e.service.Spec.Ports, corev1.ServicePort{Name: "more",
			Protocol: corev1.ProtocolTCP, Port: 81, TargetPort: intstr.FromInt32(otherPort)})
		e.slices[0].Ports = append(e.slices[0].Ports, endpointPort("more", corev1.ProtocolTCP, otherPort))
		e.fronts = append(e.fronts,
			front{kind: clusterIP, proto: "tcp", addr: e.service.Spec.ClusterIP + ":81",
				clients: []string{fromPod, fromNode, fromBackend}},
			front{kind: ingressIP, proto: "tcp", addr: e.balancer().Ingress[0].IP + ":81", clients: specialClients})
	}, readyEndpoints("l1", "r1")...)

	l.add("port-of-some-endpoints", func(e *entry) {
		e.slices[0].Ports = e.slices[0].Ports[:1]
		e.slices = append(e.slices, sliceOf(e.name, 1, bothProtocols(mainPort)[1:], readyEndpoints("r1")...))
	}, readyEndpoints("l1")...)
}

// hints: topology hints and trafficDistribution. The node is in zone.
func (l *specials) hints() {
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
	add := func(name string, distribution *string, change func(*entry), endpoints ...discoveryv1.Endpoint) {
		l.add(name, func(e *entry) {
			e.service.Spec.TrafficDistribution = distribution
			if change != nil {
				change(e)
			}
		}, endpoints...)
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
}

// frontends: what a service can say about its frontends.
func (l *specials) frontends() {
	add := func(name string, change func(*entry)) { l.add(name, change, readyEndpoints("l1", "l2", "r1", "r2")...) }
	noNodePorts := func(e *entry) {
		for i := range e.service.Spec.Ports {
			e.service.Spec.Ports[i].NodePort = 0
		}
	}
	onlyExternal := func(e *entry) {
		noNodePorts(e)
		e.balancer().Ingress = nil
		e.fronts = slices.DeleteFunc(e.fronts, func(f front) bool { return f.kind != externalIP })
	}
	sticky := func(e *entry) {
		e.service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		e.service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(120))}}
		for i := range e.fronts {
			e.fronts[i].sticky = e.fronts[i].kind != healthPort
		}
	}

	add("affinity", sticky)
	add("affinity-local", func(e *entry) { e.policies(true, true); sticky(e) })
	add("ingress-mode-proxy", func(e *entry) { e.balancer().Ingress[0].IPMode = new(corev1.LoadBalancerIPModeProxy) })
	add("ingress-mode-vip", func(e *entry) { e.balancer().Ingress[0].IPMode = new(corev1.LoadBalancerIPModeVIP) })
	add("ingress-is-a-name", func(e *entry) {
		e.balancer().Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
	})
	add("source-ranges-with-client", func(e *entry) {
		e.service.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", podRange, "10.98.0.0/24"}
	})
	add("source-ranges-without-client",
		func(e *entry) { e.service.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })

	add("sctp-beside-others", func(e *entry) {
		e.service.Spec.Ports = append(e.service.Spec.Ports,
			corev1.ServicePort{Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 80,
				NodePort: int32(firstNodePort + 2*l.next), TargetPort: intstr.FromInt32(mainPort)})
		l.next++
		e.slices[0].Ports = append(e.slices[0].Ports, endpointPort("sctp", corev1.ProtocolSCTP, mainPort))
	})
	add("served-by-another-proxy", func(e *entry) {
		e.service.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
	})

	add("no-node-ports", func(e *entry) {
		e.service.Spec.AllocateLoadBalancerNodePorts = new(bool)
		noNodePorts(e)
		e.fronts = slices.DeleteFunc(e.fronts, func(f front) bool { return f.kind == nodePort })
	})
	add("external-name", func(e *entry) {
		e.service.Spec.Type, e.service.Spec.ExternalName, e.service.Spec.ClusterIP = corev1.ServiceTypeExternalName,
			"example.com", ""
		onlyExternal(e)
	})
	add("headless", func(e *entry) {
		e.service.Spec.Type, e.service.Spec.ClusterIP = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone
		onlyExternal(e)
	})
}

// sentinel comes last of all and works from everywhere once a proxy has come that far.
func sentinel(n *numbering) entry {
	e := n.loadBalancer("zz-sentinel", specialClients)
	e.slices = []*discoveryv1.EndpointSlice{sliceOf(e.name, 0, bothProtocols(mainPort), readyEndpoints("r1")...)}
	return e
}
