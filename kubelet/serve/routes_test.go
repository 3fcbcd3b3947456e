package serve

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"

	"porthole.dev/porthole/kubelet/pod"
)

// rights are the subresources that upstream's kubelet asks the right for, by the first element of a path.
var rights = map[string]string{
	"healthz": "healthz,proxy", "readyz": "proxy", "pods": "pods,proxy", "runningpods": "pods,proxy",
	"configz": "configz,proxy",
	"stats":   "stats", "metrics": "metrics", "logs": "log", "debug": "proxy", "run": "proxy", "exec": "proxy",
	"attach":      "proxy",
	"portForward": "proxy", "containerLogs": "proxy", "checkpoint": "checkpoint", "statusz": "statusz",
	"flagz": "configz", "porthole": "proxy",
}

// denier accepts every token except "bad" and denies every right. It records which rights it was asked for.
type denier struct {
	mu    sync.Mutex
	asked []string
}

func (d *denier) ReviewToken(_ context.Context, token string, _ []string) (authnv1.TokenReviewStatus, error) {
	return authnv1.TokenReviewStatus{Authenticated: token != "bad", User: authnv1.UserInfo{Username: token}}, nil
}

func (d *denier) ReviewAccess(_ context.Context, s authzv1.SubjectAccessReviewSpec) (authzv1.SubjectAccessReviewStatus,
	error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, s.ResourceAttributes.Verb+" "+s.ResourceAttributes.Subresource)
	return authzv1.SubjectAccessReviewStatus{}, nil
}

func (d *denier) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = nil
	return asked
}

// TestEveryRouteIsGuarded requests all routes of the server with every method. A request without credentials or without
// the right must be refused, and the right that is asked for must be that of the endpoint.
func TestEveryRouteIsGuarded(t *testing.T) {
	for _, off := range []bool{false, true} {
		d := &denier{}
		s, err := New(Options{NodeName: "n", TLS: TLSOptions{CertDir: tempDir(t)},
			Pods: func() []pod.View { return view("") }, Logs: LogsOptions{Dir: tempDir(t)}, NoDebugging: off,
			Extra: Programs{Facts: func(context.Context) (any, error) { return nil, nil }}.Routes(),
			Auth:  AuthOptions{Tokens: true, Webhook: true, Reviewer: d, DeniedTTL: -1}})
		if err != nil {
			t.Fatal(err)
		}

		var paths []string
		for _, r := range s.routes() {
			_, path, found := strings.Cut(r.pattern, " ")
			if !found {
				path = r.pattern
			}
			path = strings.ReplaceAll(regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x"), "{$}", "")
			first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
			if rights[first] == "" {
				t.Errorf("%s: this test does not know what right the route needs", r.pattern)
			}
			paths = append(paths, path, path+"/", path+"?x=%2e%2e", path+"/deeper")
		}

		slices.Sort(paths)
		if paths = slices.Compact(paths); len(paths) < 60 {
			t.Fatalf("only %d paths", len(paths))
		}

		handler := s.Handler()
		for _, path := range slices.Concat(paths,
			[]string{"/", "/nothing", "//pods", "/pods/../exec/x/x/x", "/stats/%2e%2e/exec/ns/p/c"}) {
			for method, verb := range map[string]string{"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update",
				"PATCH": "patch", "DELETE": "delete", "OPTIONS": "get"} {
				guarded(t, handler, d, method, path, verb)
			}
		}
	}
}

func guarded(t *testing.T, handler http.Handler, d *denier, method, path, verb string) {
	t.Helper()
	call := func(token string) (int, string) {
		r := httptest.NewRequest(method, path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}

	for _, token := range []string{"", "bad"} {
		if code, body := call(token); code != 401 || body != "Unauthorized\n" || len(d.take()) > 0 {
			t.Errorf("%s %s with token %q: %d %q", method, path, token, code, body)
		}
	}

	code, body := call("somebody")
	first, _, _ := strings.Cut(strings.TrimPrefix(httptest.NewRequest(method, path, nil).URL.Path, "/"), "/")
	subs := rights[first]
	if subs == "" {
		subs = "proxy"
	}

	var want []string
	for _, sub := range strings.Split(subs, ",") {
		want = append(want, verb+" "+sub)
	}
	if asked := d.take(); code != 403 || !strings.HasPrefix(body, "Forbidden (user=") || !slices.Equal(asked, want) {
		t.Errorf("%s %s: %d %q, asked for %v, want %v", method, path, code, body, asked, want)
	}
}

// TestDisabledEndpointsSayThatTheyAre: upstream answers 405.
func TestDisabledEndpointsSayThatTheyAre(t *testing.T) {
	srv := startServer(t, Options{Pods: func() []pod.View { return view("") }, NoDebugging: true,
		Auth: AuthOptions{Anonymous: true}})
	for _, path := range []string{"/exec/ns/p/c", "/attach/ns/p/c", "/run/ns/p/c", "/portForward/ns/p",
		"/containerLogs/ns/p/c", "/runningpods/", "/checkpoint/ns/p/c", "/debug/flags/v", "/logs/",
		"/debug/pprof/heap"} {
		if code, body := get(t, client(), srv.URL+path, ""); code != 405 || !strings.Contains(body, "disabled") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/healthz", "/pods", "/metrics", "/metrics/probes", "/configz", "/statusz",
		"/flagz"} {
		if code, body := get(t, client(), srv.URL+path, ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// TestSwitchesOfTheirOwn: logs, profiles and the log level can each be switched off alone.
func TestSwitchesOfTheirOwn(t *testing.T) {
	srv := startServer(t, Options{Pods: func() []pod.View { return view("") }, NoProfiling: true, NoFlagChanges: true,
		Auth: AuthOptions{Anonymous: true}})
	for path, want := range map[string]string{"/logs/": "logs endpoint is disabled.\n",
		"/debug/flags/v": "flags endpoint is disabled.\n", "/debug/pprof/heap": "profiling endpoint is disabled.\n"} {
		if code, body := get(t, client(), srv.URL+path, ""); code != 405 || body != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
}

func TestProbeMetricsAreApart(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "prober_probe_total", Help: "x"})
	reg.MustRegister(c)
	c.Inc()
	srv := startServer(t, Options{Pods: func() []pod.View { return nil }, ProbeMetrics: reg,
		Metrics: prometheus.NewRegistry(), Auth: AuthOptions{Anonymous: true}})
	if _, body := get(t, client(), srv.URL+"/metrics/probes", ""); !strings.Contains(body, "prober_probe_total 1") {
		t.Errorf("probes: %s", body)
	}
	if _, body := get(t, client(), srv.URL+"/metrics", ""); strings.Contains(body, "prober_probe_total") {
		t.Error("the probes are among the other metrics")
	}
}

// TestCredentials: a token counts even if the client certificate is not valid, it may be in the name of a websocket
// protocol, and no handler ever sees it.
func TestCredentials(t *testing.T) {
	ca, _ := issue(t, "root", "admins")
	_, stranger := issue(t, "root", "admins")
	seen := make(chan http.Header, 1)
	srv := startServer(t, Options{Pods: func() []pod.View { return nil },
		Auth: AuthOptions{ClientCAFile: ca, Tokens: true, Reviewer: &reviewer{}},
		Extra: map[string]http.Handler{
			"GET /probe": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })}})

	for name, c := range map[string]struct {
		who    *http.Client
		header http.Header
		want   int
	}{
		"stranger with a good token": {client(stranger), http.Header{"Authorization": {"bearer good"}}, 200},
		"stranger with a bad token":  {client(stranger), http.Header{"Authorization": {"Bearer bad"}}, 401},
		"token of a browser": {client(),
			http.Header{"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io." +
				base64.RawURLEncoding.EncodeToString([]byte("good")) + ", v5.channel.k8s.io"}}, 200},
		"basic auth": {client(), http.Header{"Authorization": {"Basic Z29vZDpnb29k"}}, 401},
		"a token of a hundred KiB": {client(),
			http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 100<<10)}}, 401},
		"user named in a header only": {client(), http.Header{"Impersonate-User": {"root"}, "X-Remote-User": {"root"}},
			401},
	} {
		req, _ := http.NewRequest(http.MethodGet, srv.URL+"/probe", nil)
		req.Header = c.header
		resp, err := c.who.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()

		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
		if c.want != 200 {
			continue
		}
		if h := <-seen; h.Get("Authorization") != "" || strings.Contains(h.Get("Sec-Websocket-Protocol"), "bearer") {
			t.Errorf("%s: the handler saw %v", name, h)
		}
	}
}

func TestAnswersOfReviewsAreKeptForTheirTime(t *testing.T) {
	r := &reviewer{}
	g := newGuard(AuthOptions{Tokens: true, Webhook: true, Reviewer: r, TokenTTL: time.Hour}, "n")
	for range 3 {
		if _, err := g.fromToken(context.Background(), "bad", "10.0.0.1:1"); err == nil {
			t.Fatal("a bad token passed")
		}
		if _, err := g.fromToken(context.Background(), "good", "10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.reviews.Load(); n != 2 {
		t.Errorf("%d reviews of two tokens within their time", n)
	}
	g.opts.TokenTTL = -1
	clear(g.tokens)
	_, _ = g.fromToken(context.Background(), "good", "10.0.0.1:1")
	_, _ = g.fromToken(context.Background(), "good", "10.0.0.1:1")
	if n := r.reviews.Load(); n != 4 {
		t.Errorf("%d reviews, want 4: none is used after its time", n)
	}
}

// FuzzAttributes: every path that reaches a handler which acts on containers needs the right for proxy, however it is
// written.
func FuzzAttributes(f *testing.F) {
	for _, s := range []string{"/exec/ns/p/c", "/pods/../exec/ns/p/c", "/stats/%2e%2e/exec/ns/p/c", "//exec/ns/p/c",
		"/exec%2fns/p/c", "/metrics/;/run/ns/p/c"} {
		f.Add("GET", s)
		f.Add("POST", s)
	}

	reached := false
	act := func(http.ResponseWriter, *http.Request) { reached = true }
	mux := http.NewServeMux()
	s := &Server{}
	for _, r := range s.debugRoutes() {
		// these have rights of their own
		if !strings.Contains(r.pattern, "runningpods") && !strings.Contains(r.pattern, "checkpoint") {
			mux.HandleFunc(r.pattern, act)
		}
	}

	f.Fuzz(func(t *testing.T, method, path string) {
		r, err := http.NewRequest(method, "http://x/", nil)
		if err != nil {
			return
		}
		u, err := r.URL.Parse(path)
		if err != nil {
			return
		}

		r.URL, r.RequestURI = u, u.RequestURI()
		reached = false
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if _, subs := attributes(r.Method, r.URL.Path); reached && !slices.Equal(subs, []string{"proxy"}) {
			t.Fatalf("%s %q acts on containers with the right to %v", method, path, subs)
		}
	})
}
