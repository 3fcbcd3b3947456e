package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/test/proxylab"
)

const (
	kindsPort = 8080 // of the servers of pods
	kindsDNS  = 8053 // another port; the server behind it has a name of its own
)

// kinds is a lab in which our proxy runs on one host, and what is expected is written down with each question.
type kinds struct {
	lab   *proxylab.Lab
	host  *proxylab.Host
	proxy *proxylab.Process
}

func newKinds(t *testing.T, prefix string) *kinds {
	t.Helper()
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // external IPs are deprecated, and here to stay
	k := &kinds{}
	var err error
	k.lab, err = proxylab.New(t.Context(), proxylab.Options{Bin: built(t), Prefix: prefix})
	must(t, err)
	t.Cleanup(func() { must(t, k.lab.Close()) })
	return k
}

func (k *kinds) addHost(t *testing.T, o proxylab.HostOptions) *proxylab.Host {
	t.Helper()
	h, err := k.lab.AddHost(t.Context(), o)
	must(t, err)
	return h
}

// serveAt gives a place two servers; the second one's name ends in ":dns".
func serveAt(t *testing.T, p proxylab.Place) {
	t.Helper()
	dns := p
	dns.Name += ":dns"
	for port, place := range map[uint16]proxylab.Place{kindsPort: p, kindsDNS: dns} {
		s, err := place.Serve(port)
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
	}
}

// run starts our proxy on the host in place of the one that runs, and waits until HNS is as it must be.
func (k *kinds) run(t *testing.T, flags ...string) {
	t.Helper()
	if k.proxy != nil {
		k.proxy.Kill()
	}
	var err error
	k.proxy, err = k.host.RunOurs(flags...)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kube-proxy.exe said\n%s", k.proxy.LogTail(3000))
		}
	})
	k.settled(t)
}

// settled waits until HNS is as the services want it, and in all details, affinity and flags among them, as the proxy
// does; and the kernel as HNS.
func (k *kinds) settled(t *testing.T) {
	t.Helper()
	must(t, k.host.Settled(t.Context(), 20*time.Second, proxylab.Foreign{}))
	must(t, wait.For(t.Context(), 20*time.Second, "the proxy to have nothing to do", func(ctx context.Context) error {
		status, body, err := k.host.Get(ctx, proxylab.MetricsPort, "/diff")
		var d health.Diff
		if err == nil {
			err = json.Unmarshal([]byte(body), &d)
		}
		if err == nil && (status != http.StatusOK || d.Right == 0 || len(d.Operations) > 0) {
			err = fmt.Errorf("%d %s", status, body[:min(len(body), 500)])
		}
		return err
	}))
	drift, err := k.host.HNS.Verify(t.Context())
	must(t, err)
	if len(drift) > 0 {
		t.Errorf("the kernel is not as HNS says: %v", drift)
	}
}

func (k *kinds) apply(t *testing.T, s *corev1.Service) *corev1.Service {
	t.Helper()
	made, err := k.lab.ApplyService(t.Context(), s)
	must(t, err)
	return made
}

func (k *kinds) slice(t *testing.T, s *corev1.Service, suffix string, backends ...proxylab.Backend) {
	t.Helper()
	must(t, k.lab.ApplySlice(t.Context(), proxylab.Slice(s, suffix, backends...)))
}

// restart kills the proxy and starts it again: it must find nothing to write.
func (k *kinds) restart(t *testing.T, flags ...string) {
	t.Helper()
	k.proxy.Kill()
	k.proxy = nil
	must(t, k.host.HNS.ResetStats(t.Context()))
	k.run(t, flags...)
	must(t, wait.For(t.Context(), time.Minute, "kube-proxy.exe to be ready", func(ctx context.Context) error {
		status, body, err := k.host.Get(ctx, proxylab.HealthPort, "/readyz")
		if err == nil && status != http.StatusOK {
			err = errors.New(body)
		}
		return err
	}))
	stats, err := k.host.HNS.Stats(t.Context())
	must(t, err)
	if stats.Writes > 0 || len(stats.Calls) == 0 {
		t.Errorf("a restart with everything right made %d writes: %v", stats.Writes, stats.Calls)
	}
}

// want is who answers a client: each of these servers, and nobody else; without one nobody does. as is the client's
// address that they see.
type want struct {
	what string
	from proxylab.Place
	at   netip.AddrPort
	by   []string
	as   netip.Addr
}

// check asks over TCP and UDP, at least six times and until every server has answered; with 40 questions one of two is
// missed once in 10^12.
func (w want) check(t *testing.T) {
	t.Helper()
	for _, network := range []string{"tcp", "udp"} {
		w.over(t, network)
	}
}

// over asks, and again while the answers are wrong, for a few seconds: the flows of UDP follow a change with a delay.
func (w want) over(t *testing.T, network string) {
	t.Helper()
	err := wait.For(t.Context(), 4*time.Second, w.what, func(context.Context) error { return w.once(network) })
	if err != nil {
		t.Error(err)
	}
}

func (w want) once(network string) error {
	asked := fmt.Sprintf("%s asks %s %s", w.from.Name, network, w.at)
	if len(w.by) == 0 {
		if r, err := w.from.Ask(network, w.at, patience); err == nil {
			return fmt.Errorf("%s: %s answers and nobody should", asked, r.Name)
		}
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i < 6 || i < 40 && len(seen) < len(w.by); i++ {
		r, err := w.from.Ask(network, w.at, 2*muchPatience)
		if err != nil {
			return err
		}
		seen[r.Name] = true
		if !slices.Contains(w.by, r.Name) || r.Client.Addr() != w.as {
			return fmt.Errorf("%s: %s answers, who sees %s; expected %s, %s", asked, r.Name, r.Client.Addr(),
				strings.Join(w.by, " or "), w.as)
		}
	}
	if len(seen) < len(w.by) {
		return fmt.Errorf("%s: only %v answer of %v", asked, seen, w.by)
	}
	return nil
}

// problem waits for a Warning of this reason about a service.
func (k *kinds) problem(t *testing.T, s *corev1.Service, reason string) {
	t.Helper()
	must(t, wait.For(t.Context(), 20*time.Second, "an event about "+s.Name, func(ctx context.Context) error {
		list, err := k.lab.Client.CoreV1().Events(s.Namespace).
			List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + s.Name})
		if err != nil {
			return err
		}
		var others []string
		for _, e := range list.Items {
			if e.Type == corev1.EventTypeWarning && e.Reason == reason {
				t.Logf("%s: %s: %s", s.Name, e.Reason, e.Message)
				return nil
			}
			others = append(others, e.Reason)
		}
		return fmt.Errorf("none of reason %s; others: %v", reason, others)
	}))
}
