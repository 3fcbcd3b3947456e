package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/test/proxy/lab"
)

// told is a stage on which our proxy says about itself what is so: status, health, events, health check ports and the
// comparison with HNS.
type told struct{ *lab.Stage }

// ingress is an address in front of the cluster (RFC 5737, TEST-NET-2).
var ingress = netip.MustParseAddr("198.51.100.9")

// TestTruth compares what our proxy reports about itself with what is so, before HNS fails, meanwhile and afterwards.
// Row 1.03.
func TestTruth(t *testing.T) {
	w := told{lab.NewStage(t, lab.Options{Bin: bin, Prefix: "truth"})}
	w.AddHost(lab.HostOptions{Name: "win1"})
	pod := w.Pod(w.Host, "near")
	doc := lab.Service("web", lab.Port("http", "tcp", 80, 8080))
	doc.Spec.Type, doc.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer,
		corev1.ServiceExternalTrafficPolicyLocal
	doc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ingress.String()}}
	web := w.Apply(doc)
	w.Slice(web, "-a", lab.On("win1", pod.Addr)...)

	w.Must(w.Lab.RouteTo(ingress, w.Host.Place))
	w.RunOurs("--forward-healthcheck-vip")
	w.Until("the proxy is ready", 90*time.Second, w.Page(lab.HealthPort, "/readyz", 200, `"healthy":true`))
	w.Sub("all is well", func() { w.well(web) })
	w.Sub("node", w.node)
	w.Sub("failure and recovery", func() { w.failure(pod.Addr) })
	w.Sub("cleanup", w.cleanup)
}

func (w told) well(web *corev1.Service) {
	w.Until("healthz", 10*time.Second, w.Page(lab.HealthPort, "/healthz", 200, `"nodeEligible":true`))
	w.Until("livez", 10*time.Second, w.Page(lab.HealthPort, "/livez", 200, `"healthy":true`))
	w.Idle(10 * time.Second)
	w.Until("health check port", 10*time.Second,
		w.Page(uint16(web.Spec.HealthCheckNodePort), "/", 200, `"localEndpoints":1`))
	w.Until("health check at the load balancer's address", 10*time.Second, func() error {
		at := netip.AddrPortFrom(ingress, uint16(web.Spec.HealthCheckNodePort))
		_, page, err := w.Lab.Outside.Page(w.Context(), at, "/")
		if err == nil && !strings.Contains(page, `"localEndpoints":1`) {
			err = fmt.Errorf("%s answers %.500s", at, page)
		}
		return err
	})
	w.Until("metrics", 10*time.Second, w.Page(lab.MetricsPort, "/metrics", 200,
		"kubeproxy_sync_proxy_rules_service_changes_total 2", `porthole_proxy_services{state="failed"} 0`,
		"rest_client_requests_total{", "kubernetes_build_info{", "process_resident_memory_bytes",
		"kubeproxy_network_programming_duration_seconds"))
}

// node: what the cluster autoscaler means to remove gets no more traffic from outside.
func (w told) node() {
	taint := func(patch string) {
		_, err := w.Lab.Client.CoreV1().Nodes().
			Patch(w.Context(), "win1", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		w.Must(err)
	}
	taint(`{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	w.Until("healthz tells", 20*time.Second, w.Page(lab.HealthPort, "/healthz", 503, `"nodeEligible":false`))
	w.Until("livez does not", time.Second, w.Page(lab.HealthPort, "/livez", 200, `"healthy":true`))
	taint(`{"spec":{"taints":null}}`)
	w.Until("healthz is well again", 20*time.Second, w.Page(lab.HealthPort, "/healthz", 200, `"nodeEligible":true`))
}

// failure: HNS says of every new load balancer that it exists already, and lists none.
func (w told) failure(backend netip.Addr) {
	const code = 0x803b0014
	w.Must(w.Host.HNS.Faults(w.Context(), fault{"function": "HcnCreateLoadBalancer", "action": "fail", "code": code}))
	begin := time.Now()
	late := w.Apply(lab.Service("late", lab.Port("http", "tcp", 80, 8080)))
	w.Slice(late, "-a", lab.On("win1", backend)...)
	w.Until("status tells", 30*time.Second, func() error {
		var s health.Status
		err := w.Read("/status", &s)
		if err == nil && (len(s.Failed) != 1 || s.Failed[0].Service != "default/late" ||
			s.Failed[0].Code != "0x803b0014" || s.Services[health.Failed] != 1) {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	})

	w.Until("an event on the service", 60*time.Second, w.Event(late, "Warning", health.ReasonFailed, "0x803b0014"))
	w.Logf("the event came after %v", time.Since(begin))
	w.Until("readyz tells", 60*time.Second,
		w.Page(lab.HealthPort, "/readyz", 503, "service default/late is failed since"))
	if took := time.Since(begin); took < 30*time.Second {
		w.Errorf("readyz was bad after %v, before 30 s", took)
	}
	w.Until("the difference is told", 10*time.Second,
		w.Page(lab.MetricsPort, "/diff", 200, "create lb "+late.Spec.ClusterIP+" 80/tcp"))
	w.Until("with its service", 10*time.Second, w.Page(lab.MetricsPort, "/diff", 200, `"service":"default/late"`))
	w.Must(w.Host.HNS.Faults(w.Context()))

	w.Until("readyz is well again", 60*time.Second, w.Page(lab.HealthPort, "/readyz", 200, ""))
	w.Until("an event of recovery", 30*time.Second, w.Event(late, "Normal", health.ReasonRecovered, "programmed again"))
	w.Idle(10 * time.Second)
}

// cleanup: nothing of ours is left, and the program ends.
func (w told) cleanup() {
	before, err := w.Host.LoadBalancers(w.Context())
	w.Must(err)
	if len(before) == 0 {
		w.Fatal("nothing to clean up")
	}
	w.RunOurs("--cleanup")
	w.Until("no load balancer is left", 60*time.Second, func() error {
		after, err := w.Host.LoadBalancers(w.Context())
		if err == nil && len(after) > 0 {
			err = fmt.Errorf("left: %v", after)
		}
		return err
	})
}
