// Package truth tests that what the service proxy reports about itself is true: status, health, events, health check
// ports and the comparison with HNS. Our kube-proxy.exe runs on an emulated host with a real API server.
package truth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/proxy/health"
	lab "porthole.dev/porthole/test/proxylab"
)

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("skipped: a lab needs root")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type world struct {
	*testing.T
	ctx  context.Context
	host *lab.Host
	lab  *lab.Lab
}

func (w world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w world) until(what string, limit time.Duration, try func() error) {
	w.Helper()
	w.must(wait.For(w.ctx, limit, what, func(context.Context) error { return try() }))
}

// code wants a page to answer with a code, and a part in its body.
func (w world) code(port uint16, path string, code int, part string) func() error {
	return func() error {
		got, body, err := w.host.Get(w.ctx, port, path)
		if err != nil || got != code || !strings.Contains(body, part) {
			return fmt.Errorf("%s: %d %.2000s (%v), want %d and %q", path, got, body, err, code, part)
		}
		return nil
	}
}

func (w world) status() (s health.Status, err error) {
	_, body, err := w.host.Get(w.ctx, lab.MetricsPort, "/status")
	if err == nil {
		err = json.Unmarshal([]byte(body), &s)
	}
	return s, err
}

// event wants an event of a reason on a service.
func (w world) event(s *corev1.Service, reason, kind, part string) func() error {
	return func() error {
		list, err := w.lab.Client.CoreV1().Events(s.Namespace).List(w.ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Service,involvedObject.uid=" + string(s.UID)})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			seen = append(seen, e.Type+" "+e.Reason+": "+e.Message)
			if e.Reason == reason && e.Type == kind && strings.Contains(e.Message, part) &&
				e.Source == (corev1.EventSource{Component: "kube-proxy", Host: w.host.Name}) {
				return nil
			}
		}
		return fmt.Errorf("no %s event %s with %q: %q", kind, reason, part, seen)
	}
}

// ingress is an address in front of the cluster (RFC 5737, TEST-NET-2).
var ingress = netip.MustParseAddr("198.51.100.9")

// outside requests a page as a client outside the cluster.
func (w world) outside(at netip.AddrPort, part string) func() error {
	return func() error {
		var conn net.Conn
		err := platform.InNetns(w.lab.Outside.Netns, func() (err error) {
			conn, err = net.DialTimeout("tcp", at.String(), 2*time.Second)
			return err
		})
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // an open connection takes deadlines
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		page, err := io.ReadAll(conn)
		if err == nil && !strings.Contains(string(page), part) {
			err = fmt.Errorf("%s answers %.500s, not %s", at, page, part)
		}
		return err
	}
}

// Row 1.03.
func TestTruth(t *testing.T) {
	w := world{T: t, ctx: t.Context()}
	var err error
	w.lab, err = lab.New(w.ctx, lab.Options{Bin: "../../bin", Prefix: "truth"})
	w.must(err)
	t.Cleanup(func() { w.must(w.lab.Close()) })
	w.host, err = w.lab.AddHost(w.ctx, lab.HostOptions{Name: "win1"})
	w.must(err)
	pod, err := w.host.Pod(w.ctx, "near", netip.Addr{})
	w.must(err)
	web := lab.Service("web", lab.Port("http", "tcp", 80, 8080))
	web.Spec.Type, web.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer,
		corev1.ServiceExternalTrafficPolicyLocal
	web.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ingress.String()}}
	web, err = w.lab.ApplyService(w.ctx, web)
	w.must(err)
	w.must(w.lab.ApplySlice(w.ctx, lab.Slice(web, "-a", lab.On("win1", pod.Addr)...)))

	w.must(w.lab.RouteTo(ingress, w.host.Place))
	p, err := w.host.RunOurs("--v=2", "--forward-healthcheck-vip")
	w.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.LogTail(6000))
		}
	})
	w.until("the proxy is ready", 90*time.Second, w.code(lab.HealthPort, "/readyz", 200, `"healthy":true`))
	t.Run("all is well", func(t *testing.T) { w.with(t).well(web) })
	t.Run("node", func(t *testing.T) { w.with(t).node() })
	t.Run("failure and recovery", func(t *testing.T) { w.with(t).failure(pod.Addr) })
	p.Kill()
	t.Run("cleanup", func(t *testing.T) { w.with(t).cleanup() })
}

func (w world) with(t *testing.T) world { w.T = t; return w }

func (w world) well(web *corev1.Service) {
	w.until("healthz", 10*time.Second, w.code(lab.HealthPort, "/healthz", 200, `"nodeEligible":true`))
	w.until("livez", 10*time.Second, w.code(lab.HealthPort, "/livez", 200, `"healthy":true`))
	w.until("nothing to do", 10*time.Second, w.code(lab.MetricsPort, "/diff", 200, `"equal":true`))
	w.until("health check port", 10*time.Second,
		w.code(uint16(web.Spec.HealthCheckNodePort), "/", 200, `"localEndpoints":1`))
	w.until("health check at the load balancer's address", 10*time.Second,
		w.outside(netip.AddrPortFrom(ingress, uint16(web.Spec.HealthCheckNodePort)), `"localEndpoints":1`))
	for _, part := range []string{"kubeproxy_sync_proxy_rules_service_changes_total 2",
		`porthole_proxy_services{state="failed"} 0`,
		"rest_client_requests_total{", "kubernetes_build_info{", "process_resident_memory_bytes",
		"kubeproxy_network_programming_duration_seconds"} {
		w.until("metrics", 10*time.Second, w.code(lab.MetricsPort, "/metrics", 200, part))
	}
}

// node: what the cluster autoscaler means to remove gets no more traffic from outside.
func (w world) node() {
	taint := func(patch string) {
		_, err := w.lab.Client.CoreV1().Nodes().
			Patch(w.ctx, "win1", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		w.must(err)
	}
	taint(`{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	w.until("healthz tells", 20*time.Second, w.code(lab.HealthPort, "/healthz", 503, `"nodeEligible":false`))
	w.until("livez does not", time.Second, w.code(lab.HealthPort, "/livez", 200, `"healthy":true`))
	taint(`{"spec":{"taints":null}}`)
	w.until("healthz is well again", 20*time.Second, w.code(lab.HealthPort, "/healthz", 200, `"nodeEligible":true`))
}

// failure: HNS says of every new load balancer that it exists already, and lists none.
func (w world) failure(backend netip.Addr) {
	const code = 0x803b0014
	w.must(w.host.HNS.Faults(w.ctx,
		map[string]any{"function": "HcnCreateLoadBalancer", "action": "fail", "code": code}))
	begin := time.Now()
	late, err := w.lab.ApplyService(w.ctx, lab.Service("late", lab.Port("http", "tcp", 80, 8080)))
	w.must(err)
	w.must(w.lab.ApplySlice(w.ctx, lab.Slice(late, "-a", lab.On("win1", backend)...)))
	w.until("status tells", 30*time.Second, func() error {
		s, err := w.status()
		if err == nil && (len(s.Failed) != 1 || s.Failed[0].Service != "default/late" ||
			s.Failed[0].Code != "0x803b0014" || s.Services[health.Failed] != 1) {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	})

	w.until("an event on the service", 60*time.Second, w.event(late, health.ReasonFailed, "Warning", "0x803b0014"))
	w.Logf("the event came after %v", time.Since(begin))
	w.until("readyz tells", 60*time.Second,
		w.code(lab.HealthPort, "/readyz", 503, "service default/late is failed since"))
	if took := time.Since(begin); took < 30*time.Second {
		w.Errorf("readyz was bad after %v, before 30 s", took)
	}
	w.until("the difference is told", 10*time.Second,
		w.code(lab.MetricsPort, "/diff", 200, "create lb "+late.Spec.ClusterIP+" 80/tcp"))
	w.until("with its service", 10*time.Second, w.code(lab.MetricsPort, "/diff", 200, `"service":"default/late"`))
	w.must(w.host.HNS.Faults(w.ctx))

	w.until("readyz is well again", 60*time.Second, w.code(lab.HealthPort, "/readyz", 200, ""))
	w.until("an event of recovery", 30*time.Second, w.event(late, health.ReasonRecovered, "Normal", "programmed again"))
	w.until("nothing to do", 10*time.Second, w.code(lab.MetricsPort, "/diff", 200, `"equal":true`))
}

// cleanup: nothing of ours is left, and the program ends.
func (w world) cleanup() {
	before, err := w.host.LoadBalancers(w.ctx)
	w.must(err)
	if len(before) == 0 {
		w.Fatal("nothing to clean up")
	}
	p, err := w.host.RunOurs("--cleanup", "--v=2")
	w.must(err)
	w.until("no load balancer is left", 60*time.Second, func() error {
		after, err := w.host.LoadBalancers(w.ctx)
		if err == nil && len(after) > 0 {
			err = fmt.Errorf("left: %v\n%s", after, p.LogTail(2000))
		}
		return err
	})
}
