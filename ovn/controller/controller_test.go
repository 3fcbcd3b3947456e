package controller

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/podranges"
	"porthole.dev/porthole/ovn/nb"
)

// objects is a cluster in memory, which notes what is written to it.
type objects struct {
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	services []*corev1.Service
	slices   []*discoveryv1.EndpointSlice
	refuse   error // answer to AnnotatePod

	annotated, warned []string
}

func (o *objects) Synced() bool                         { return true }
func (o *objects) Nodes() []*corev1.Node                { return o.nodes }
func (o *objects) Pods() []*corev1.Pod                  { return o.pods }
func (o *objects) Services() []*corev1.Service          { return o.services }
func (o *objects) Slices() []*discoveryv1.EndpointSlice { return o.slices }

func (o *objects) AnnotatePod(_ context.Context, pod *corev1.Pod, key, value string) error {
	o.annotated = append(o.annotated, pod.Name+" "+key+" "+value)
	return o.refuse
}

func (o *objects) Warn(kind string, about metav1.Object, reason, _ string) {
	o.warned = append(o.warned, kind+" "+about.GetName()+" "+reason)
}

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: "lin01"}}
	if change != nil {
		change(p)
	}
	return p
}

// TestFacts: nodes have their first IPv4 range, and pods without a port are left out.
func TestFacts(t *testing.T) {
	at := netip.MustParseAddr("10.244.1.7")
	given := ovnet.Address{IP: at, MAC: ovnet.MACOf(at)}
	f := factsOf(&objects{
		nodes: []*corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "lin01"},
				Spec: corev1.NodeSpec{PodCIDRs: []string{"fd00::/64", "10.244.1.9/24"}, PodCIDR: "fd00::/64"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "win01", Labels: map[string]string{corev1.LabelOSStable: "windows"}}},
		},
		pods: []*corev1.Pod{
			pod("plain", nil),
			pod("given", func(p *corev1.Pod) {
				p.Annotations = map[string]string{ovnet.Annotation: ovnet.AnnotationOf(given,
					netip.MustParsePrefix("10.244.1.0/24"))}
			}),
			pod("spoiled", func(p *corev1.Pod) { p.Annotations = map[string]string{ovnet.Annotation: "{"} }),
			pod("host", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			pod("pending", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
			pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			pod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		},
	}, podranges.Cluster{})

	if want := []nb.Node{{Name: "lin01", Subnet: netip.MustParsePrefix("10.244.1.0/24")},
		{Name: "win01", Windows: true}}; !slices.Equal(f.Nodes, want) {
		t.Errorf("nodes %+v, want %+v", f.Nodes, want)
	}
	want := []nb.Pod{
		{Namespace: "default", Name: "plain", Node: "lin01"},
		{Namespace: "default", Name: "given", Node: "lin01", Given: given},
		{Namespace: "default", Name: "spoiled", Node: "lin01"},
	}
	if !slices.Equal(f.Pods, want) {
		t.Errorf("pods %+v, want %+v", f.Pods, want)
	}
}

// TestMadeByNode: the range of a pod that runs with the address of its annotation counts, unless a node made the pod.
func TestMadeByNode(t *testing.T) {
	subnet, at := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("10.244.1.7")
	for name, change := range map[string]func(*corev1.Pod){
		"":       func(*corev1.Pod) {},
		"mirror": func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "" },
		"owned by Node": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "lin01"}}
		},
		"other address":  func(p *corev1.Pod) { p.Status.PodIP = "10.244.1.8" },
		"address is new": func(p *corev1.Pod) { p.Status.PodIP = "" },
	} {
		p := pod("p", func(p *corev1.Pod) {
			p.Annotations = map[string]string{
				ovnet.Annotation: ovnet.AnnotationOf(ovnet.Address{IP: at, MAC: ovnet.MACOf(at)}, subnet)}
			p.Status.PodIP = at.String()
			change(p)
		})
		got := factsOf(&objects{pods: []*corev1.Pod{p}}, podranges.Cluster{}).Pods[0]
		if got.Given.IP != at || got.Range.IsValid() != (name == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func pointer[T any](v T) *T { return &v }

// TestServices: a port has the ready endpoints of its own name and protocol, and a service every IPv4 address that it
// is reached at.
func TestServices(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web"}
	ports := []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
	web := &corev1.Service{ObjectMeta: meta,
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.20", ClusterIPs: []string{"10.96.0.20", "fd00::20"},
			ExternalIPs: []string{"192.0.2.1"}, Ports: ports}}
	web.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}, {Hostname: "web.example"}}
	slice := func(kind discoveryv1.AddressType, port, protocol string, number int32,
		endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: kind,
			Ports: []discoveryv1.EndpointPort{{Name: &port, Protocol: pointer(corev1.Protocol(protocol)),
				Port: &number}}, Endpoints: endpoints}
	}
	endpoint := func(address string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address},
			Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}

	f := factsOf(&objects{
		services: []*corev1.Service{
			web,
			{ObjectMeta: metav1.ObjectMeta{Name: "headless"},
				Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: ports}},
			{ObjectMeta: metav1.ObjectMeta{Name: "alias"},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalIPs: []string{"192.0.2.9"}}},
		},
		slices: []*discoveryv1.EndpointSlice{
			slice(discoveryv1.AddressTypeIPv4, "http", "TCP", 8080, endpoint("10.244.1.3", nil),
				endpoint("10.244.1.4", pointer(true)), endpoint("10.244.1.5", pointer(false))),
			slice(discoveryv1.AddressTypeIPv4, "http", "UDP", 8080, endpoint("10.244.1.6", nil)),
			slice(discoveryv1.AddressTypeIPv4, "dns", "UDP", 5353, endpoint("10.244.1.7", nil)),
			slice(discoveryv1.AddressTypeIPv6, "http", "TCP", 8080, endpoint("fd00::3", nil)),
		},
	}, podranges.Cluster{})
	if len(f.Services) != 1 {
		t.Fatalf("services %+v, want web alone", f.Services)
	}
	addresses := func(list ...string) (out []netip.AddrPort) {
		for _, a := range list {
			out = append(out, netip.MustParseAddrPort(a))
		}
		return out
	}
	got := f.Services[0]
	if want := []netip.Addr{netip.MustParseAddr("10.96.0.20"), netip.MustParseAddr("192.0.2.1"),
		netip.MustParseAddr("192.0.2.2")}; !slices.Equal(got.VIPs, want) {
		t.Errorf("addresses %v, want %v", got.VIPs, want)
	}
	want := []nb.Port{{Protocol: "tcp", Port: 80, Backends: addresses("10.244.1.3:8080", "10.244.1.4:8080")},
		{Protocol: "udp", Port: 53, Backends: addresses("10.244.1.7:5353")}}
	same := func(a, b nb.Port) bool {
		return a.Protocol == b.Protocol && a.Port == b.Port && slices.Equal(a.Backends, b.Backends)
	}
	if !slices.EqualFunc(got.Ports, want, same) {
		t.Errorf("ports %+v, want %+v", got.Ports, want)
	}
}

// TestAnnotate: only a pod whose annotation differs is written, and a refusal is returned after all were tried.
func TestAnnotate(t *testing.T) {
	subnet, at := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("10.244.1.7")
	address := ovnet.Address{IP: at, MAC: ovnet.MACOf(at)}
	text := ovnet.AnnotationOf(address, subnet)
	right := pod("right", func(p *corev1.Pod) { p.Annotations = map[string]string{ovnet.Annotation: text} })
	ended := pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	o := &objects{pods: []*corev1.Pod{right, pod("a", nil), ended, pod("b", nil), pod("unknown", nil)},
		refuse: errors.New("conflict")}

	wanted := nb.Wanted{Subnets: map[string]netip.Prefix{"lin01": subnet}, Addresses: map[string]ovnet.Address{}}
	for _, name := range []string{"right", "a", "b", "ended"} {
		wanted.Addresses["default/"+name] = address
	}
	err := New(Options{Cluster: o}).annotate(t.Context(), wanted)
	if err == nil || strings.Count(err.Error(), "conflict") != 2 {
		t.Errorf("%v, want two conflicts", err)
	}
	if want := []string{"a ovn " + text, "b ovn " + text}; !slices.Equal(o.annotated, want) {
		t.Errorf("annotated %q, want %q", o.annotated, want)
	}
}

// TestWarn: a problem is an event once, and again when it comes back.
func TestWarn(t *testing.T) {
	o := &objects{nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, pods: []*corev1.Pod{pod("p", nil)}}
	c := New(Options{Cluster: o})
	node, gone := nb.Problem{Kind: "Node", Key: "n", Reason: "RangesOverlap"}, nb.Problem{Kind: "Pod",
		Key: "default/gone", Reason: "NoFreeAddress"}
	own := nb.Problem{Kind: "Pod", Key: "default/p", Reason: "AddressInUse"}
	for _, problems := range [][]nb.Problem{{node, gone}, {node, gone, own}, {own}, {own, node}} {
		c.warn(problems)
	}
	if want := []string{"Node n RangesOverlap", "Pod p AddressInUse", "Node n RangesOverlap"}; !slices.Equal(o.warned,
		want) {
		t.Errorf("events %q, want %q", o.warned, want)
	}
}
