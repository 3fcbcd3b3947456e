package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"porthole.dev/porthole/internal/testkit/bubble"
)

func TestTracker(t *testing.T) {
	for _, c := range []struct {
		name     string
		kind     Kind
		probe    v1.Probe
		outcomes string // + success, - failure
		statuses string // after each: s, f, u
		ended    bool
	}{
		{"readiness begins not ready", Readiness, v1.Probe{}, "", "", false},
		{"readiness default thresholds", Readiness, v1.Probe{}, "+--+---+", "ssssssfs", false},
		{"readiness needs two successes", Readiness, v1.Probe{SuccessThreshold: 2}, "+-++", "fffs", false},
		{"liveness one failure allowed", Liveness, v1.Probe{FailureThreshold: 2}, "-+-", "sss", false},
		{"liveness fails", Liveness, v1.Probe{FailureThreshold: 2}, "+--", "ssf", true},
		{"startup succeeds", Startup, v1.Probe{FailureThreshold: 3}, "--+", "uus", true},
		{"startup fails", Startup, v1.Probe{FailureThreshold: 3}, "---", "uuf", true},
	} {
		tr := NewTracker(c.kind, &c.probe, time.Time{})
		if tr.Status() != c.kind.initial() {
			t.Errorf("%s: begins %v", c.name, tr.Status())
		}

		got := ""
		for _, o := range c.outcomes {
			tr.Observe(o == '+')
			got += tr.Status().String()[:1]
		}
		if got != c.statuses || tr.Ended() != c.ended {
			t.Errorf("%s: %s gives %s ended %v, want %s %v", c.name, c.outcomes, got, tr.Ended(), c.statuses, c.ended)
		}
	}
}

// TestInitialDelay: the first run comes when the delay since the start of the container is over, the next one a period
// later.
func TestInitialDelay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		var runs []time.Duration
		m := New(Options{Report: func(Result) {},
			Exec: func(context.Context, string, []string, time.Duration) (int, []byte, error) {
				runs = append(runs, time.Since(began))
				return 0, nil, nil
			}})
		c := &v1.Container{Name: "c", LivenessProbe: &v1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 3,
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}}}
		m.StartTarget(Key{"uid", "c"}, Target{Pod: &v1.Pod{}, Container: c, ID: "id", Started: began.Add(-time.Second)})

		time.Sleep(10*time.Second - time.Millisecond)
		m.Stop(Key{"uid", "c"})
		bubble.Wait()
		if len(runs) != 2 || runs[0] != 4*time.Second || runs[1] != 7*time.Second {
			t.Errorf("it ran after %v", runs)
		}
	})
}

func targetOf(t *testing.T, address string) (Target, intstr.IntOrString) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(port)
	c := &v1.Container{Name: "c", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(n)}}}
	return Target{Pod: &v1.Pod{}, Container: c, ID: "id", PodIP: host}, intstr.FromInt(n)
}

func TestHTTP(t *testing.T) {
	var agent, accept, host string
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		agent, accept, host = r.UserAgent(), r.Header.Get("Accept"), r.Host
		_, _ = w.Write([]byte("fine"))
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/bad", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://203.0.113.9/", http.StatusFound)
	})

	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	m := New(Options{})
	for _, c := range []struct {
		path string
		tls  bool
		want outcome
	}{
		{"/ok", false, outcome{ok: true, text: "fine"}},
		{"/ok", true, outcome{ok: true, text: "fine"}},
		{"/bad", false, outcome{text: "HTTP probe failed with statuscode: 500"}},
		{"/here", false, outcome{text: "HTTP probe failed with statuscode: 500"}},
		{"/away", false, outcome{ok: true, warning: true, text: "Probe terminated redirects"}},
		{"/slow", false, outcome{text: "Client.Timeout exceeded"}},
	} {

		server, scheme := plain, v1.URISchemeHTTP
		if c.tls {
			server, scheme = secure, v1.URISchemeHTTPS
		}
		u, _ := url.Parse(server.URL)
		target, _ := targetOf(t, u.Host)
		p := &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: c.path,
			Port: intstr.FromString("web"), Scheme: scheme,
			HTTPHeaders: []v1.HTTPHeader{{Name: "Host", Value: "example.test"}}}}}
		got, err := m.run(context.Background(), p, target)
		if err != nil || got.ok != c.want.ok || got.warning != c.want.warning ||
			!strings.Contains(got.text, c.want.text) {
			t.Errorf("%s: %+v %v, want %+v", c.path, got, err, c.want)
		}
	}

	if agent != "kube-probe/1.36" || accept != "*/*" || host != "example.test" {
		t.Errorf("headers: %q %q %q", agent, accept, host)
	}
}

func TestTCPAndGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, state := grpc.NewServer(), health.NewServer()
	state.SetServingStatus("down", healthv1.HealthCheckResponse_NOT_SERVING)
	healthv1.RegisterHealthServer(server, state)
	go func() { _ = server.Serve(l) }()

	target, port := targetOf(t, l.Addr().String())
	m := New(Options{})
	run := func(h v1.ProbeHandler) outcome {
		t.Helper()
		out, err := m.run(context.Background(), &v1.Probe{ProbeHandler: h}, target)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	tcp, down := v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: port}}, "down"
	if out := run(tcp); !out.ok {
		t.Errorf("tcp: %+v", out)
	}
	if out := run(v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port.IntValue())}}); !out.ok {
		t.Errorf("grpc: %+v", out)
	}
	if out := run(v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port.IntValue()), Service: &down}}); out.ok ||
		!strings.Contains(out.text, "NOT_SERVING") {
		t.Errorf("grpc not serving: %+v", out)
	}

	server.Stop()
	if out := run(tcp); out.ok || out.text == "" {
		t.Errorf("tcp on a closed port: %+v", out)
	}
	if out := run(v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port.IntValue())}}); out.ok {
		t.Errorf("grpc on a closed port: %+v", out)
	}
	if _, err := m.run(context.Background(),
		&v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("nope")}}},
		target); err == nil {
		t.Error("unknown port name accepted")
	}
}

func TestExec(t *testing.T) {
	for _, c := range []struct {
		exit int
		err  error
		ok   bool
		fail bool
	}{{0, nil, true, false}, {1, nil, false, false}, {0, context.DeadlineExceeded, false, false}, {0,
		errors.New("no runtime"), false, true}} {
		m := New(Options{Exec: func(_ context.Context, id string, cmd []string, timeout time.Duration) (int, []byte,
			error) {
			if id != "id" || cmd[0] != "x" || timeout != 3*time.Second {
				t.Errorf("asked for %s %v %v", id, cmd, timeout)
			}
			return c.exit, []byte("out"), c.err
		}})
		p := &v1.Probe{TimeoutSeconds: 3, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}}
		out, err := m.run(context.Background(), p, Target{ID: "id"})
		if out.ok != c.ok || (err != nil) != c.fail {
			t.Errorf("%+v: %+v %v", c, out, err)
		}
	}
}

func TestManagerOrder(t *testing.T) {
	results := make(chan Result, 10)
	var live atomic.Bool
	m := New(Options{
		Report: func(r Result) { results <- r },
		Exec: func(_ context.Context, _ string, cmd []string, _ time.Duration) (int, []byte, error) {
			if cmd[0] == "startup" {
				live.Store(true)
			} else if !live.Load() {
				t.Errorf("%s ran before startup", cmd[0])
			}
			if cmd[0] == "liveness" {
				return 1, nil, nil
			}
			return 0, nil, nil
		},
	})

	probe := func(name string) *v1.Probe {
		return &v1.Probe{PeriodSeconds: 1, FailureThreshold: 1,
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{name}}}}
	}
	grace := int64(7)
	c := &v1.Container{Name: "c", StartupProbe: probe("startup"), LivenessProbe: probe("liveness"),
		ReadinessProbe: probe("readiness")}
	c.LivenessProbe.TerminationGracePeriodSeconds = &grace
	key := Key{"uid", "c"}
	m.Start(key, &v1.Pod{}, c, "id-1", "127.0.0.1")
	m.Start(key, &v1.Pod{}, c, "id-1", "127.0.0.1")

	got := map[Kind]Result{}
	for len(got) < 3 {
		select {
		case r := <-results:
			if _, twice := got[r.Kind]; twice {
				t.Errorf("reported twice: %+v", r)
			}
			got[r.Kind] = r
		case <-time.After(5 * time.Second):
			t.Fatalf("only %v", got)
		}
	}

	if got[Startup].Status != Success || got[Readiness].Status != Success || got[Liveness].Status != Failure ||
		*got[Liveness].GracePeriod != 7 {
		t.Errorf("%+v", got)
	}
	if v, known := m.Status(key, Startup); v != Success || !known {
		t.Errorf("startup: %v %v", v, known)
	}

	m.Stop(key)
	if _, known := m.Status(key, Startup); known {
		t.Error("known after Stop")
	}
}
