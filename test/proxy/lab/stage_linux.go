package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Stage is a test with a Lab, and a host of it whose proxy is judged. What cannot be done ends the test.
type Stage struct {
	*testing.T // of the subtest that runs: see Sub
	Lab        *Lab
	// Host is the one that is judged; nil until AddHost.
	Host *Host
	// Proxy runs on it, or did last; nil before the first.
	Proxy *testkit.Process
}

// NewStage starts a Lab that the test's end closes. Without root there is none, and no test.
func NewStage(t *testing.T, o Options) *Stage {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a lab needs root")
	}
	s := &Stage{T: t}
	var err error
	s.Lab, err = New(t.Context(), o)
	s.Must(err)
	t.Cleanup(func() {
		if err := s.Lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Must ends the test if there is an error.
func (s *Stage) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Sub runs a subtest, which is the test while it runs; so none of a Stage's may be parallel.
func (s *Stage) Sub(name string, f func()) {
	s.Helper()
	whole := s.T
	whole.Run(name, func(t *testing.T) {
		s.T = t
		defer func() { s.T = whole }()
		f()
	})
}

// Until waits for try to return no error.
func (s *Stage) Until(what string, limit time.Duration, try func() error) {
	s.Helper()
	s.Must(wait.For(s.Context(), limit, what, func(context.Context) error { return try() }))
}

// AddHost makes a host; the first is the one that is judged.
func (s *Stage) AddHost(o HostOptions) *Host {
	s.Helper()
	h, err := s.Lab.AddHost(s.Context(), o)
	s.Must(err)
	if s.Host == nil {
		s.Host = h
	}
	return h
}

// Pod makes a pod on a Host or Node, which serves at the ports until the test ends.
func (s *Stage) Pod(on PodMaker, name string, ports ...uint16) *Pod {
	s.Helper()
	p, err := on.Pod(s.Context(), name, netip.Addr{})
	s.Must(err)
	s.Serve(p.Place, ports...)
	return p
}

// Serve lets a place answer at ports until the test ends.
func (s *Stage) Serve(p Place, ports ...uint16) {
	s.Helper()
	t := s.T
	for _, port := range ports {
		server, err := p.Serve(port)
		s.Must(err)
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Apply makes a service as given, for the host to see, and returns what the API server made of it.
func (s *Stage) Apply(doc *corev1.Service) *corev1.Service {
	s.Helper()
	made, err := s.Host.ApplyService(s.Context(), doc)
	s.Must(err)
	return made
}

// Slice replaces the backends of a service, in its slice of that suffix.
func (s *Stage) Slice(service *corev1.Service, suffix string, backends ...Backend) {
	s.Helper()
	s.Must(s.Host.ApplySlice(s.Context(), Slice(service, suffix, backends...)))
}

// RunOurs starts our kube-proxy.exe in place of the proxy that runs.
func (s *Stage) RunOurs(flags ...string) {
	s.Helper()
	s.instead(s.Host.RunOurs, flags)
}

// RunUpstream is RunOurs with upstream's.
func (s *Stage) RunUpstream(flags ...string) {
	s.Helper()
	s.instead(s.Host.RunUpstream, flags)
}

// instead replaces the proxy. If the test fails, the last one's state and log are shown.
func (s *Stage) instead(run func(...string) (*testkit.Process, error), flags []string) {
	s.Helper()
	if s.Proxy != nil {
		s.Proxy.Kill()
	}
	p, err := run(append([]string{"--v=2"}, flags...)...)
	s.Must(err)
	s.Proxy = p
	t := s.T
	t.Cleanup(func() {
		if t.Failed() && s.Proxy == p {
			ended, err := p.Ended()
			_, status, _ := s.Host.Get(context.Background(), MetricsPort, "/status") // an error shows in the log
			t.Logf("the proxy has ended: %t, %v; its state:\n%.3000s\nits log:\n%s", ended, err, status, p.LogTail(6000))
		}
	})
}

// Settled waits until HNS has what the services imply, and nothing else but the foreign objects.
func (s *Stage) Settled(within time.Duration, foreign ...string) {
	s.Helper()
	s.Must(s.Host.Settled(s.Context(), within, foreign...))
}

// Idle waits until our proxy says that it has nothing to do.
func (s *Stage) Idle(within time.Duration) {
	s.Helper()
	s.Until("the proxy to have nothing to do", within, s.Page(MetricsPort, "/diff", http.StatusOK, `"equal":true`))
}

// Page wants a page of the proxy to have a code, and these parts in its body.
func (s *Stage) Page(port uint16, path string, code int, parts ...string) func() error {
	return func() error {
		got, body, err := s.Host.Get(s.Context(), port, path)
		lacks := func(part string) bool { return !strings.Contains(body, part) }
		if err != nil || got != code || slices.ContainsFunc(parts, lacks) {
			return fmt.Errorf("%s: %d %.2000s (%v), want %d and %q", path, got, body, err, code, parts)
		}
		return nil
	}
}

// Read decodes a page of the proxy's metrics server.
func (s *Stage) Read(path string, into any) error {
	code, body, err := s.Host.Get(s.Context(), MetricsPort, path)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d %.500s", path, code, body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), into)
}

// Event wants an event of the proxy about a service, with a part in its message. kind is Normal or Warning; any reason
// will do if it is "".
func (s *Stage) Event(about *corev1.Service, kind, reason, part string) func() error {
	return func() error {
		list, err := s.Lab.Client.CoreV1().Events(about.Namespace).List(s.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + about.Name})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			seen = append(seen, e.Type+" "+e.Reason+": "+e.Message)
			if (reason == "" || e.Reason == reason) && e.Type == kind && strings.Contains(e.Message, part) &&
				e.Source == (corev1.EventSource{Component: "kube-proxy", Host: s.Host.Name}) {
				s.Logf("%s: %s", about.Name, seen[len(seen)-1])
				return nil
			}
		}
		return fmt.Errorf("no %s event %s about %s with %q: %q", kind, reason, about.Name, part, seen)
	}
}

// Stats are the calls to HNS since the start or the last ResetStats.
func (s *Stage) Stats() serve.Stats {
	s.Helper()
	st, err := s.Host.HNS.Stats(s.Context())
	s.Must(err)
	return st
}
