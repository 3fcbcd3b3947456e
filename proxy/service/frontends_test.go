package service

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// here is the node of all tests: n1 in zone z1.
var here = Node{Name: "n1", Zone: "z1"}

func compute(objects ...metav1.Object) string { return computeWith(Options{}, objects...) }

func computeWith(o Options, objects ...metav1.Object) string {
	t := NewTracker(here)
	t.SetOptions(o)
	for _, object := range objects {
		switch x := object.(type) {
		case *corev1.Service:
			t.SetService(x)
		case *discoveryv1.EndpointSlice:
			t.SetSlice(x)
		}
	}
	return text(t.Take())
}

func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

// TestKinds has one case for each kind of service, and for each rule that leaves something out.
func TestKinds(t *testing.T) {
	sctp := ports("s 80/sctp", "http 80")
	proxyMode := func(s *corev1.Service) {
		mode := corev1.LoadBalancerIPModeProxy
		s.Status.LoadBalancer.Ingress[0].IPMode = &mode
	}
	pods := eps("web-1", "10.0.0.1 n1", "10.0.0.2 n2")

	for _, c := range []struct {
		name string
		svc  *corev1.Service
		want string
	}{
		{"cluster IP", svc("web"), lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080")},
		{"no endpoints of that port", svc("web", ports("other 80")), lines("web cluster IP 10.96.0.1 80/tcp -> ")},
		{"every kind", svc("web", loadBalancer("203.0.113.7", "", "203.0.113.8"), externalIPs("198.51.100.1", "")),
			lines(
				"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
				"web node port node 30080/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
				"web ingress IP 203.0.113.7 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
				"web ingress IP 203.0.113.8 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
				"web external IP 198.51.100.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080")},
		{"proxy mode", svc("web", loadBalancer("203.0.113.7"), proxyMode), lines(
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
			"web node port node 30080/tcp -> 10.0.0.1:8080* 10.0.0.2:8080")},
		{"one address in two ways",
			svc("web", loadBalancer("203.0.113.7"), externalIPs("203.0.113.7", "203.0.113.7", "10.96.0.1")), lines(
				"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
				"web node port node 30080/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
				"web ingress IP 203.0.113.7 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080")},
		{"ingress of a service that is none",
			svc("web", loadBalancer("203.0.113.7"), ports("http 80"), typ(corev1.ServiceTypeClusterIP)),
			lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080")},
		{"bad addresses", svc("web", externalIPs("1.2.3", "2001:db8::1")), lines(
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080", "web problem InvalidAddress")},
		{"leading zeros", svc("web", externalIPs("198.051.100.001")), lines(
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
			"web external IP 198.51.100.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080")},
		{"headless", svc("web", ips("None")), ""},
		{"no address yet", svc("web", ips("")), ""},
		{"external name", svc("web", typ(corev1.ServiceTypeExternalName)), ""},
		{"other proxy", svc("web", label("service.kubernetes.io/service-proxy-name", "x")), ""},
		{"SCTP", svc("web", sctp),
			lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
				"web problem ProtocolNotSupported")},
		{"affinity", svc("web", affinity(60)),
			lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080 affinity 1m0s")},
		{"affinity, default", svc("web", affinity(0)),
			lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080 affinity 3h0m0s")},
		{"preserve destination", svc("web", loadBalancer("203.0.113.7"), annotation("preserve-destination", "true")),
			lines(
				"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080 preserve",
				"web node port node 30080/tcp -> 10.0.0.1:8080* | internal 10.0.0.1:8080* 10.0.0.2:8080 preserve",
				"web ingress IP 203.0.113.7 80/tcp -> 10.0.0.1:8080* | internal 10.0.0.1:8080* 10.0.0.2:8080 preserve")},
		{"health check", svc("web", loadBalancer(), externalLocal), lines(
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:8080",
			"web node port node 30080/tcp -> 10.0.0.1:8080* | internal 10.0.0.1:8080* 10.0.0.2:8080",
			"web health 31000 = 1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := compute(c.svc, pods); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestSourceRanges: ingress IPs with ranges are refused, unless the ranges are enforced. Node port and cluster IP have
// no ranges.
func TestSourceRanges(t *testing.T) {
	const ingress = "web ingress IP 203.0.113.7 80/tcp -> "
	for _, c := range []struct {
		name    string
		options Options
		service []serviceOption
		want    string
	}{
		{"refused", Options{}, []serviceOption{ranges("192.0.2.0/24")}, "web problem SourceRangesNotEnforced"},
		{"spaces", Options{}, []serviceOption{ranges(" 192.0.2.0/24 ")}, "web problem SourceRangesNotEnforced"},
		{"admits all", Options{}, []serviceOption{ranges("192.0.2.0/24", "0.0.0.0/0")}, ingress},
		{"other family", Options{}, []serviceOption{ranges("2001:db8::/32")}, ingress},
		{"flag", Options{SourceRanges: Elsewhere}, []serviceOption{ranges("192.0.2.0/24")}, ingress},
		{"annotation", Options{},
			[]serviceOption{ranges("192.0.2.0/24"), annotation(SourceRangesAnnotation, "elsewhere")}, ingress},
		{"carried", Options{SourceRanges: Carry}, []serviceOption{ranges("192.0.2.0/24", "2001:db8::/32")},
			ingress + " from [192.0.2.0/24]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := lines("web cluster IP 10.96.0.1 80/tcp -> ", "web node port node 30080/tcp -> ", c.want)
			if got := computeWith(c.options,
				svc("web", append(c.service, loadBalancer("203.0.113.7"))...)); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestBackends has the rules about endpoints that hold for every traffic policy.
func TestBackends(t *testing.T) {
	nilName := with(eps("web-1", "10.0.0.1 n1"), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil })
	dual := []serviceOption{ips("10.96.0.1", "fd00::1")}

	for _, c := range []struct {
		name   string
		svc    []serviceOption
		slices []metav1.Object
		want   string
	}{
		{"another port per slice", nil,
			[]metav1.Object{eps("web-1", "10.0.0.1 n1"), with(eps("web-2", "10.0.0.2 n2"), to("http 9090"))},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080* 10.0.0.2:9090"},
		{"two protocols of one name", []serviceOption{ports("dns 53/udp", "dns 53")},
			[]metav1.Object{with(eps("web-1", "10.0.0.1"), to("dns 1053/udp", "dns 2053"))},
			"web cluster IP 10.96.0.1 53/udp -> 10.0.0.1:1053\nweb cluster IP 10.96.0.1 53/tcp -> 10.0.0.1:2053"},
		{"both families", dual, []metav1.Object{eps("web-1", "10.0.0.1 n1"), eps("web-2", "fd01::1 n2")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080*\nweb cluster IP fd00::1 80/tcp -> fd01::1:8080"},
		{"slices of the other family", nil, []metav1.Object{eps("web-1", "10.0.0.1"), eps("web-2", "fd01::1")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080"},
		{"family without its address", []serviceOption{func(s *corev1.Service) {
			s.Spec.IPFamilies = s.Spec.IPFamilies[:1]
			s.Spec.ClusterIPs = []string{"10.96.0.1", "fd00::1"}
		}},
			[]metav1.Object{eps("web-1", "10.0.0.1")}, "web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080"},
		{"by hand, no node", nil, []metav1.Object{eps("anything", "192.0.2.1", "192.0.2.2 unset")},
			"web cluster IP 10.96.0.1 80/tcp -> 192.0.2.1:8080 192.0.2.2:8080"},
		{"in two slices", nil, []metav1.Object{eps("web-2", "10.0.0.1 n1"),
			eps("web-1", "10.0.0.1 n2 terminating", "10.0.0.1 n1")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080*"},
		{"port without a name", nil, []metav1.Object{nilName}, "web cluster IP 10.96.0.1 80/tcp -> "},
		{"other service's", nil, []metav1.Object{with(eps("x", "10.0.0.1"), of("x"))},
			"web cluster IP 10.96.0.1 80/tcp -> "},
		{"headless slices", nil,
			[]metav1.Object{with(eps("web-1", "10.0.0.1"),
				func(s *discoveryv1.EndpointSlice) { s.Labels[labelHeadless] = "" })},
			"web cluster IP 10.96.0.1 80/tcp -> "},
		{"host names", nil,
			[]metav1.Object{with(eps("web-1", "example.org"),
				func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN })},
			"web cluster IP 10.96.0.1 80/tcp -> "},
		{"not ready", nil, []metav1.Object{eps("web-1", "10.0.0.1 notready", "10.0.0.2 unserving")},
			"web cluster IP 10.96.0.1 80/tcp -> "},
		{"terminating beside ready", nil, []metav1.Object{eps("web-1", "10.0.0.1 terminating", "10.0.0.2")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.2:8080"},
		{"terminating only", nil,
			[]metav1.Object{eps("web-1", "10.0.0.1 terminating", "10.0.0.2 terminating unserving")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080"},
		{"published though terminating", nil, []metav1.Object{eps("web-1", "10.0.0.1 published", "10.0.0.2")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080 10.0.0.2:8080"},
		{"own zone", nil,
			[]metav1.Object{eps("web-1", "10.0.0.1 n2 zone=z1", "10.0.0.2 n3 zone=z2", "10.0.0.3 notready")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080"},
		{"one without a zone", nil, []metav1.Object{eps("web-1", "10.0.0.1 n2 zone=z1", "10.0.0.2 n3")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080 10.0.0.2:8080"},
		{"none for our zone", nil, []metav1.Object{eps("web-1", "10.0.0.1 zone=z3", "10.0.0.2 zone=z2")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080 10.0.0.2:8080"},
		{"own node before zone", nil,
			[]metav1.Object{eps("web-1", "10.0.0.1 n1 zone=z1 for=n1", "10.0.0.2 zone=z1 for=n2")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080*"},
		{"zone when no node hint is ours", nil,
			[]metav1.Object{eps("web-1", "10.0.0.1 zone=z2 for=n3", "10.0.0.2 zone=z1 for=n2")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.2:8080"},
		{"hints do not bind policy Local", []serviceOption{internalLocal},
			[]metav1.Object{eps("web-1", "10.0.0.1 n1 zone=z2", "10.0.0.2 zone=z1")},
			"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := compute(append(c.slices, svc("web", c.svc...))...); got != lines(c.want) {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}
