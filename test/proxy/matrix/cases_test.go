package matrix

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	nodeName   = "node1"
	remoteName = "node2"
	zone       = "zone-" + nodeName // as the lab labels nodes
	otherZone  = "zone-" + remoteName
	namespace  = "matrix"

	nodeIP, remoteIP, outIP    = "10.98.0.11", "10.98.0.12", "203.0.113.1"
	podRange                   = "10.244.0.0/16"
	nodePods, remotePods       = "10.244.1.0/24", "10.244.2.0/24"
	externalRange              = "198.18.0.0/15" // RFC 2544: external IPs are 198.18.x.y, ingress IPs 198.19.x.y
	clientPod                  = "10.244.1.20"
	mainPort, otherPort        = 8080, 8081 // of every backend
	firstNodePort              = 30000
	firstHealthPort            = 32000
	manyBackends, servedAtMost = 1030, 1024
)

// Kinds of frontends, and the health check node port, which is asked over HTTP.
const (
	clusterIP  = "cluster"
	nodePort   = "nodeport"
	externalIP = "external"
	ingressIP  = "ingress"
	healthPort = "health"
)

// Clients. The hairpin client is the backend l1 itself.
const (
	fromPod     = "pod"
	fromNode    = "node"
	fromOutside = "outside"
	fromBackend = "l1"
)

var (
	matrixClients  = []string{fromPod, fromNode, fromOutside}
	specialClients = []string{fromPod, fromNode, fromOutside, fromBackend}
)

// front is one address and port to ask.
type front struct {
	kind, proto string
	addr        string // host:port
	// sticky: a client must always meet the same backend, whichever.
	sticky  bool
	clients []string
}

// entry is a service, what stands behind it, and the questions about it.
type entry struct {
	name    string
	number  int // gives the addresses and ports
	service *corev1.Service
	slices  []*discoveryv1.EndpointSlice
	fronts  []front
}

// balancer has the addresses of the service's load balancer.
func (e *entry) balancer() *corev1.LoadBalancerStatus { return &e.service.Status.LoadBalancer }

// condition of an endpoint, and the number of the pod that has it.
type condition struct {
	name                        string
	pod                         int
	ready, serving, terminating bool
}

var conditions = []condition{
	{"ready", 1, true, true, false},
	{"serving", 2, false, true, true},
	{"leaving", 3, false, false, true},
	{"unready", 4, false, false, false},
}

func podAddr(prefix string, pod int) string {
	a := netip.MustParsePrefix(prefix).Addr().As4()
	a[3] = byte(10 + pod)
	return netip.AddrFrom4(a).String()
}

// sets are the endpoints that one node can have.
func sets() map[string][]condition {
	out := map[string][]condition{"none": nil, "all": conditions}
	for _, c := range conditions {
		out[c.name] = []condition{c}
	}
	return out
}

// endpoint in the given condition on this node or on the other one.
func endpoint(c condition, local bool) discoveryv1.Endpoint {
	node, pods := remoteName, remotePods
	if local {
		node, pods = nodeName, nodePods
	}
	return discoveryv1.Endpoint{Addresses: []string{podAddr(pods, c.pod)}, NodeName: &node,
		Conditions: discoveryv1.EndpointConditions{Ready: &c.ready, Serving: &c.serving, Terminating: &c.terminating}}
}

// sliceOf makes a slice of the service; ports by name.
func sliceOf(service string, number int, ports []discoveryv1.EndpointPort,
	endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", service, number),
			Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports, Endpoints: endpoints,
	}
}

func endpointPort(name string, proto corev1.Protocol, port int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Protocol: &proto, Port: &port}
}

func bothProtocols(port int32) []discoveryv1.EndpointPort {
	return []discoveryv1.EndpointPort{endpointPort("tcp", corev1.ProtocolTCP, port),
		endpointPort("udp", corev1.ProtocolUDP, port)}
}

// numbering hands out addresses and ports, so that all entries can be loaded at once.
type numbering struct{ next int }

// loadBalancer is a service with every kind of frontend on TCP and UDP.
func (n *numbering) loadBalancer(name string, clients []string) entry {
	i := n.next
	n.next++
	at := func(base string) string {
		a := netip.MustParseAddr(base).As4()
		a[2] += byte(1 + i/200)
		a[3] += byte(1 + i%200)
		return netip.AddrFrom4(a).String()
	}
	cluster, external, ingress := at("10.96.0.0"), at("198.18.0.0"), at("198.19.0.0")

	e := entry{name: name, number: i, service: &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: cluster,
			ExternalIPs: []string{external}},
	}}
	e.balancer().Ingress = []corev1.LoadBalancerIngress{{IP: ingress}}

	for p, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		number := firstNodePort + 2*i + p
		word := strings.ToLower(string(proto))
		e.service.Spec.Ports = append(e.service.Spec.Ports, corev1.ServicePort{
			Name: word, Protocol: proto, Port: 80, NodePort: int32(number), TargetPort: intstr.FromInt32(mainPort)})
		for _, f := range []front{{kind: clusterIP, addr: cluster + ":80"}, {kind: externalIP, addr: external + ":80"},
			{kind: ingressIP, addr: ingress + ":80"}, {kind: nodePort, addr: fmt.Sprintf("%s:%d", nodeIP, number)}} {
			f.proto, f.clients = word, clients
			if f.kind == clusterIP { // the outside has no route to it
				f.clients = slices.DeleteFunc(slices.Clone(clients), func(c string) bool { return c == fromOutside })
			}
			e.fronts = append(e.fronts, f)
		}
	}

	return e
}

// policies sets the traffic policies. An external policy Local brings the health check node port.
func (e *entry) policies(internalLocal, externalLocal bool) {
	if internalLocal {
		e.service.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if externalLocal {
		e.service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		e.service.Spec.HealthCheckNodePort = int32(firstHealthPort + e.number)
		e.fronts = append(e.fronts, front{kind: healthPort, proto: "http", clients: []string{fromOutside},
			addr: fmt.Sprintf("%s:%d", nodeIP, firstHealthPort+e.number)})
	}
}

// matrixEntries are all combinations of internal and external policy with the endpoints of this node and of the other
// one, sorted by name.
func matrixEntries(n *numbering) []entry {
	names := slices.Sorted(maps.Keys(sets()))
	var out []entry
	for _, internalLocal := range []bool{false, true} {
		for _, externalLocal := range []bool{false, true} {
			for _, local := range names {
				for _, remote := range names {
					out = append(out, matrixEntry(n, internalLocal, externalLocal, local, remote))
				}
			}
		}
	}
	return out
}

func matrixEntry(n *numbering, internalLocal, externalLocal bool, local, remote string) entry {
	policy := map[bool]string{false: "cluster", true: "local"}
	name := fmt.Sprintf("int-%s-ext-%s-here-%s-there-%s", policy[internalLocal], policy[externalLocal], local, remote)
	e := n.loadBalancer(name, matrixClients)
	e.policies(internalLocal, externalLocal)
	var endpoints []discoveryv1.Endpoint
	for _, c := range sets()[local] {
		endpoints = append(endpoints, endpoint(c, true))
	}
	for _, c := range sets()[remote] {
		endpoints = append(endpoints, endpoint(c, false))
	}
	e.slices = []*discoveryv1.EndpointSlice{sliceOf(name, 0, bothProtocols(mainPort), endpoints...)}
	return e
}

// rotated gives every entry of a matrix the endpoints of another one, for which the policies are the same: what a proxy
// must follow while it runs. Names stay, so they do not tell the endpoints any more.
func rotated(entries []entry, by int) []entry {
	group := len(sets()) * len(sets())
	out := slices.Clone(entries)
	for i := range out {
		from := entries[i/group*group+(i%group+by)%group]
		s := out[i].slices[0].DeepCopy()
		s.Endpoints = from.slices[0].Endpoints
		out[i].slices = []*discoveryv1.EndpointSlice{s}
	}
	return out
}
