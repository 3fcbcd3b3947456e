package health_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// bench is a server with a clock that tests move.
type bench struct {
	*health.Server
	now      time.Time
	eligible bool
	events   []health.Event
}

func (b *bench) ServiceEvent(e health.Event) { b.events = append(b.events, e) }

func newBench() *bench {
	b := &bench{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), eligible: true}
	b.Server = health.New(health.Options{Node: "win01", Families: []string{health.IPv4, health.IPv6}, Events: b,
		MaxBackends: 3,
		Now:         func() time.Time { return b.now }, Eligible: func() bool { return b.eligible }})
	return b
}

// good is a pass after which all is well.
func (b *bench) good() { b.Pass(health.Pass{Observed: b.now, Ready: true}) }

func (b *bench) fail(name string, failures int, code uint32) {
	b.Service(health.ServiceStatus{Service: name, State: health.Failed, Frontends: 1, Reason: "PortPoolExhausted",
		Message: "10.96.0.10 80/tcp: no ports", Code: code, Since: b.now, Failures: failures})
}

func (b *bench) done(name string) {
	b.Service(health.ServiceStatus{Service: name, State: health.Programmed, Frontends: 1, Programmed: 1, Since: b.now})
}

func get(t *testing.T, h http.Handler, path string) (int, map[string]any, http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	doc := map[string]any{}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v in %s", path, err, w.Body)
		}
	} else {
		doc["text"] = w.Body.String()
	}
	return w.Code, doc, w.Header()
}

// TestHealth walks through what can be wrong, and asks all three pages each time.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name                   string
		do                     func(*bench)
		healthz, readyz, livez int
		reason                 string // part of the reasons of /readyz or /livez
		serving                bool   // service a/b, for load balancers in front
	}{
		{"just started", func(*bench) {}, 503, 503, 200, "no pass was complete", false},
		{"all is well", func(b *bench) { b.good() }, 200, 200, 200, "", true},
		{"host unknown since the start", func(b *bench) {
			b.Pass(health.Pass{Err: errors.New("RPC server is unavailable")})
		}, 503, 503, 200, "RPC server is unavailable", false},
		{"host unknown for 30 s", func(b *bench) {
			b.good()
			seen := b.now
			b.now = b.now.Add(30 * time.Second)
			b.Pass(health.Pass{Observed: seen, Ready: true, Err: errors.New("unavailable")})
		}, 200, 200, 200, "", true},
		{"host unknown for 61 s", func(b *bench) {
			b.good()
			seen := b.now
			b.now = b.now.Add(61 * time.Second)
			b.Pass(health.Pass{Observed: seen, Ready: true, Err: errors.New("unavailable")})
		}, 503, 503, 200, "unavailable", false},
		{"a young failure", func(b *bench) { b.good(); b.fail("a/b", 3, 1) }, 200, 200, 200, "", true},
		{"a failure of 31 s", func(b *bench) {
			b.fail("a/b", 3, 1)
			b.now = b.now.Add(31 * time.Second)
			b.good()
		}, 200, 503, 200, "service a/b is failed since 2026-01-02T03:04:05Z: 10.96.0.10 80/tcp: no ports", false},
		{"a failure of 61 s that was pending in between", func(b *bench) {
			b.fail("a/b", 3, 1)
			b.now = b.now.Add(55 * time.Second)
			b.Service(health.ServiceStatus{Service: "a/b", State: health.Pending, Since: b.now})
			b.now = b.now.Add(6 * time.Second)
			b.good()
		}, 200, 503, 200, "service a/b is pending since 2026-01-02T03:04:05Z", false},
		{"another service failed", func(b *bench) {
			b.fail("a/c", 3, 1)
			b.now = b.now.Add(61 * time.Second)
			b.good()
		}, 200, 503, 200, "service a/c", true},
		{"it recovered", func(b *bench) {
			b.fail("a/b", 3, 1)
			b.now = b.now.Add(61 * time.Second)
			b.done("a/b")
			b.good()
		}, 200, 200, 200, "", true},
		{"it was removed", func(b *bench) {
			b.fail("a/b", 3, 1)
			b.now = b.now.Add(61 * time.Second)
			b.Service(health.ServiceStatus{Service: "a/b", Removed: true})
			b.good()
		}, 200, 200, 200, "", true},
		{"what can never be served is not ill health", func(b *bench) {
			b.good()
			b.Service(health.ServiceStatus{Service: "a/b", State: health.Programmed,
				Problems: []service.Problem{{Service: "a/b", Reason: "X", Text: "sctp"}}})
			b.now = b.now.Add(90 * time.Second)
			b.good()
		}, 200, 200, 200, "", true},
		{"the node goes", func(b *bench) { b.good(); b.eligible = false }, 503, 200, 200, "", true},
		{"the loop stands", func(b *bench) { b.good(); b.now = b.now.Add(6 * time.Minute) }, 503, 503, 503,
			"stood still since 2026-01-02T03:04:05Z", false},
		{"a long pass shows signs", func(b *bench) {
			b.good()
			b.now = b.now.Add(6 * time.Minute)
			b.Called("create lb", "ok", time.Second)
		}, 200, 200, 200, "", true},
		{"waiting for the API", func(b *bench) { b.now = b.now.Add(6 * time.Minute); b.Alive() }, 503, 503, 200,
			"no pass was complete", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench()
			c.do(b)

			var codes []int
			reasons := ""
			for _, path := range []string{"/healthz", "/readyz", "/livez"} {
				code, doc, header := get(t, b.HealthHandler(), path)
				codes = append(codes, code)
				if path != "/healthz" {
					reasons += fmt.Sprint(doc["reasons"])
				}
				if _, has := doc["nodeEligible"]; has != (path == "/healthz") {
					t.Errorf("%s: nodeEligible given: %v", path, has)
				}
				if header.Get("X-Content-Type-Options") != "nosniff" ||
					header.Get("Content-Type") != "application/json" {
					t.Errorf("%s: headers %v", path, header)
				}
				if code == 200 && doc["lastUpdated"] != doc["currentTime"] {
					t.Errorf("%s: lastUpdated %v is not now, as upstream has it", path, doc["lastUpdated"])
				}
			}

			if diff := cmp.Diff([]int{c.healthz, c.readyz, c.livez}, codes); diff != "" {
				t.Errorf("healthz, readyz, livez (-want +got):\n%s", diff)
			}
			if !strings.Contains(reasons, c.reason) {
				t.Errorf("reasons %s, want one with %q", reasons, c.reason)
			}
			if got := b.Serving("a/b"); got != c.serving {
				t.Errorf("serving a/b: %v", got)
			}
		})
	}
}

func TestManyReasons(t *testing.T) {
	b := newBench()
	for i := range 100 {
		b.fail(fmt.Sprintf("ns/s%02d", i), 1, 1)
	}
	b.now = b.now.Add(61 * time.Second)
	b.good()
	_, doc, _ := get(t, b.HealthHandler(), "/readyz")
	reasons, _ := doc["reasons"].([]any)
	if len(reasons) != 21 || reasons[20] != "and 80 more services" {
		t.Errorf("%d reasons, the last %v", len(reasons), reasons[len(reasons)-1])
	}
}

func TestStatus(t *testing.T) {
	b := newBench()
	b.done("a/right")
	b.fail("a/wrong", 4, 0x803b0014)
	b.Service(health.ServiceStatus{Service: "a/young", State: health.Pending, Frontends: 2, Programmed: 1, Since: b.now,
		Problems: []service.Problem{{Service: "a/young", Reason: "ProtocolNotSupported", Text: "SCTP"}}})
	b.done("a/gone")
	b.Service(health.ServiceStatus{Service: "a/gone", Removed: true})
	b.Pass(health.Pass{Observed: b.now, Ready: true, Wanted: 4, Programmed: 2, Failed: 1, Pending: 1,
		Took: time.Second})

	pages := b.MetricsHandler(health.Pages{})
	code, doc, _ := get(t, pages, "/status")
	at := "2026-01-02T03:04:05Z"
	want := map[string]any{
		"at": at, "took": 1e9, "observed": at, "ready": true, "wanted": 4.0, "programmed": 2.0,
		"services": map[string]any{"programmed": 1.0, "pending": 1.0, "failed": 1.0},
		"failed": []any{map[string]any{"service": "a/wrong", "state": "failed", "frontends": 1.0,
			"reason":  "PortPoolExhausted",
			"message": "10.96.0.10 80/tcp: no ports", "code": "0x803b0014", "since": at, "failures": 4.0}},
		"pending": []any{map[string]any{"service": "a/young", "state": "pending", "frontends": 2.0, "programmed": 1.0,
			"since": at}},
		"unserved": []any{map[string]any{"service": "a/young", "reason": "ProtocolNotSupported", "message": "SCTP"}},
	}
	if diff := cmp.Diff(want, doc); code != 200 || diff != "" {
		t.Errorf("status %d (-want +got):\n%s", code, diff)
	}
	if _, doc, _ := get(t, pages, "/status?all"); len(doc["right"].([]any)) != 1 {
		t.Errorf("all: %v", doc)
	}
	if _, doc, _ := get(t, pages, "/status?service=a/right"); doc["failed"] != nil || len(doc["right"].([]any)) != 1 {
		t.Errorf("one: %v", doc)
	}
}

// TestEvents: what is said about a service, in order.
func TestEvents(t *testing.T) {
	sctp := service.Problem{Service: "a/b", Reason: "ProtocolNotSupported", Text: "port 7: no SCTP"}

	for _, c := range []struct {
		name string
		do   func(*bench)
		want []string
	}{
		{"twice is everyday life", func(b *bench) { b.fail("a/b", 1, 1); b.fail("a/b", 2, 1); b.done("a/b") }, nil},
		{"the third time is said, once", func(b *bench) {
			for i := range 50 {
				b.now = b.now.Add(30 * time.Second)
				b.fail("a/b", i+1, 1)
			}
		}, []string{"W FailedToProgramLoadBalancer a/b: node win01: 10.96.0.10 80/tcp: no ports"}},
		{"again when it would have expired, by itself", func(b *bench) {
			b.fail("a/b", 3, 1)
			b.now = b.now.Add(61 * time.Minute)
			b.good()
		}, []string{"W FailedToProgramLoadBalancer a/b: node win01: 10.96.0.10 80/tcp: no ports",
			"W FailedToProgramLoadBalancer a/b: node win01: 10.96.0.10 80/tcp: no ports"}},
		{"another cause is another event",
			func(b *bench) { b.fail("a/b", 3, 1); b.fail("a/b", 1, 2); b.fail("a/b", 3, 2) },
			[]string{"W FailedToProgramLoadBalancer a/b: node win01: 10.96.0.10 80/tcp: no ports",
				"W FailedToProgramLoadBalancer a/b: node win01: 10.96.0.10 80/tcp: no ports"}},
		{"recovery is said if the failure was", func(b *bench) { b.fail("a/b", 3, 1); b.done("a/b"); b.done("a/b") },
			[]string{"W FailedToProgramLoadBalancer a/b: node win01: 10.96.0.10 80/tcp: no ports",
				"N ProgrammedLoadBalancer a/b: node win01: all 1 frontends are programmed again"}},
		{"a problem is said once, and again when it comes back", func(b *bench) {
			with := health.ServiceStatus{Service: "a/b", State: health.Programmed, Problems: []service.Problem{sctp}}
			b.Service(with)
			b.Service(with)
			b.good()
			b.done("a/b")
			b.Service(with)
		},
			[]string{"W ProtocolNotSupported a/b: node win01: port 7: no SCTP",
				"W ProtocolNotSupported a/b: node win01: port 7: no SCTP"}},
		{"a number that changes in a problem is no news", func(b *bench) {
			for i := range 5 {
				b.Service(health.ServiceStatus{Service: "a/b", State: health.Programmed,
					Problems: []service.Problem{sctp,
						{Service: "a/b", Reason: "TooManyBackends",
							Text: fmt.Sprintf("%d of its backends are left out", i)}}})
			}
		},
			[]string{"W ProtocolNotSupported a/b: node win01: port 7: no SCTP",
				"W TooManyBackends a/b: node win01: 0 of its backends are left out"}},
		{"a removed service is forgotten", func(b *bench) {
			b.fail("a/b", 3, 1)
			b.events = nil
			b.Service(health.ServiceStatus{Service: "a/b", Removed: true})
			b.now = b.now.Add(2 * time.Hour)
			b.good()
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench()
			c.do(b)
			var got []string
			for _, e := range b.events {
				kind := "N"
				if e.Warning {
					kind = "W"
				}
				got = append(got, kind+" "+e.Reason+" "+e.Service+": "+e.Text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEventLoop: a service that fails and recovers in a loop is heard of, and not for each turn.
func TestEventLoop(t *testing.T) {
	b := newBench()
	for range 50 {
		b.fail("a/b", 3, 1)
		b.done("a/b")
	}
	if len(b.events) != 5 {
		t.Errorf("%d events, want 5", len(b.events))
	}
}

// TestEventFlood: a thousand services that fail at once do not flood the API, and none is forgotten.
func TestEventFlood(t *testing.T) {
	b := newBench()
	for i := range 1000 {
		b.fail(fmt.Sprintf("ns/s%03d", i), 3, 1)
	}
	if len(b.events) != 50 {
		t.Errorf("%d events at once, want 50", len(b.events))
	}
	for range 40 {
		b.now = b.now.Add(30 * time.Second)
		b.good()
	}
	said := map[string]int{}
	for _, e := range b.events {
		said[e.Service]++
	}
	if len(said) != 1000 || len(b.events) != 1000 {
		t.Errorf("%d services in %d events after 20 min, want 1000 in 1000", len(said), len(b.events))
	}
}

// TestUpstreamMetrics: every series of upstream's that a Windows node has, with its labels.
func TestUpstreamMetrics(t *testing.T) {
	b := newBench()
	b.ServiceChanged()
	b.SliceChanged()
	b.SliceChanged()
	get(t, b.HealthHandler(), "/healthz")
	get(t, b.HealthHandler(), "/livez")
	pages := b.MetricsHandler(health.Pages{})
	_, doc, _ := get(t, pages, "/metrics")

	for _, want := range []string{"kubeproxy_sync_proxy_rules_endpoint_changes_pending 2",
		"kubeproxy_sync_proxy_rules_service_changes_pending 1"} {
		if !strings.Contains(doc["text"].(string), want+"\n") {
			t.Errorf("before the pass: no %s", want)
		}
	}

	local := service.Frontend{Kind: service.NodePort, LocalOnly: true}
	many := service.Frontend{Kind: service.ClusterIP, Backends: make([]service.Backend, 8)}
	b.Taken([]service.State{{Service: "a/b", Frontends: []service.Frontend{local, many, many}}})
	b.Pass(health.Pass{Observed: b.now, Ready: true, Full: true, Took: 3 * time.Millisecond, Wanted: 7, Failed: 2,
		Writes: 5})
	b.Pass(health.Pass{Observed: b.now, Ready: true, Took: 3 * time.Millisecond, Wanted: 7, Failed: 2,
		Err: errors.New("x")})
	b.Programmed(b.now.Add(-700 * time.Millisecond))
	b.Repaired("load balancer", 577)
	b.Called("create lb", "ok", time.Millisecond)
	b.Service(health.ServiceStatus{Service: "a/b", State: health.Failed,
		Problems: []service.Problem{{Reason: "FrontendTaken"}}})
	_, doc, _ = get(t, pages, "/metrics")
	text := doc["text"].(string)

	for _, want := range []string{
		`kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="0.004"} 2`,
		`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1`,
		`kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1`,
		`kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.767323045e+09`,
		`kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.767323045e+09`,
		`kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="0.5"} 0`,
		`kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="1"} 1`,
		`kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="300"} 1`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 1`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 0`,
		`kubeproxy_sync_proxy_rules_endpoint_changes_pending 0`,
		`kubeproxy_sync_proxy_rules_endpoint_changes_total 2`,
		`kubeproxy_sync_proxy_rules_service_changes_pending 0`,
		`kubeproxy_sync_proxy_rules_service_changes_total 1`,
		`kubeproxy_proxy_healthz_total{code="503"} 1`,
		`kubeproxy_proxy_livez_total{code="200"} 1`,
		`porthole_proxy_services{state="failed"} 1`,
		`porthole_proxy_services{state="programmed"} 0`,
		`porthole_proxy_problems{reason="FrontendTaken"} 1`,
		`porthole_proxy_programming_latency_seconds_bucket{le="1.28"} 1`,
		`porthole_proxy_repaired_total{kind="load balancer"} 577`,
		`porthole_proxy_writes_total 5`,
		`porthole_proxy_backends_left_out 10`,
		`porthole_proxy_passes_blind_total 1`,
		`porthole_proxy_frontends_wanted 7`,
		`porthole_proxy_frontends_failed 2`,
		`porthole_hns_calls_total{call="create lb",result="ok"} 1`,
		`go_goroutines `,
		`process_start_time_seconds `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	b.Service(health.ServiceStatus{Service: "a/b", Removed: true})
	b.Taken([]service.State{{Service: "a/b"}})
	_, doc, _ = get(t, pages, "/metrics")

	for _, gone := range []string{`porthole_proxy_services{state="failed"} 1`, "FrontendTaken",
		`traffic_policy="external"} 1`, "left_out 10"} {
		if strings.Contains(doc["text"].(string), gone) {
			t.Errorf("still %s", gone)
		}
	}
}

func TestPages(t *testing.T) {
	b := newBench()
	pages := b.MetricsHandler(health.Pages{Config: map[string]string{"mode": "kernelspace"}})
	if _, doc, _ := get(t, pages,
		"/configz"); doc["kubeproxy.config.k8s.io"].(map[string]any)["mode"] != "kernelspace" {
		t.Errorf("configz: %v", doc)
	}
	if _, doc, _ := get(t, pages, "/proxyMode"); doc["text"] != "kernelspace" {
		t.Errorf("proxyMode: %v", doc)
	}
	for _, path := range []string{"/diff", "/debug/pprof/cmdline"} {
		if code, _, _ := get(t, pages, path); code != 404 {
			t.Errorf("%s: %d without being asked for", path, code)
		}
	}
	if code, _, _ := get(t, b.MetricsHandler(health.Pages{Profiling: true}), "/debug/pprof/cmdline"); code != 200 {
		t.Errorf("profiling: %d", code)
	}
}

// BenchmarkService shows what a change costs among 10,000 services.
func BenchmarkService(b *testing.B) {
	h := newBench()
	for i := range 10000 {
		h.done(fmt.Sprintf("namespace/service-%d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		h.done("namespace/service-5000")
	}
}
