package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/pod"
)

// freeAddress returns an address of this machine where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestRun: the API is served with TLS and authentication, health and the read-only port without either, until the
// context ends.
func TestRun(t *testing.T) {
	var sick atomic.Bool
	healthy := func() error {
		if sick.Load() {
			return errors.New("sick")
		}
		return nil
	}
	o := Options{NodeName: "n", Address: freeAddress(t), HealthAddress: freeAddress(t), ReadOnlyAddress: freeAddress(t),
		TLS:  TLSOptions{CertDir: tempDir(t)},
		Pods: func() []pod.View { return nil }, Healthy: healthy}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	wait.NoError(t, 10*time.Second, "the servers", func() error {
		resp, err := http.Get("http://" + o.HealthAddress + "/healthz/ping")
		if err == nil {
			resp.Body.Close()
		}
		return err
	})

	if code, body := get(t, client(), "https://"+o.Address+"/pods", ""); code != 401 {
		t.Errorf("without credentials: %d %s", code, body)
	}
	for path, want := range map[string]int{"/pods": 200, "/metrics": 200, "/healthz": 200, "/containerLogs/a/b/c": 405,
		"/run/a/b/c": 405, "/configz": 404, "/debug/pprof/": 404} {
		if code, body := get(t, client(), "http://"+o.ReadOnlyAddress+path, ""); code != want {
			t.Errorf("read-only port, %s: %d %s, want %d", path, code, body, want)
		}
	}
	for _, c := range []struct {
		path string
		sick bool
		want int
	}{{"/healthz", false, 200}, {"/healthz", true, 500}, {"/healthz/syncloop", true, 500}, {"/healthz/log", true,
		200}, {"/readyz", false, 200}, {"/pods", false, 404}} {
		sick.Store(c.sick)
		if code, body := get(t, client(), "http://"+o.HealthAddress+c.path, ""); code != c.want {
			t.Errorf("%s, sick %v: %d %s, want %d", c.path, c.sick, code, body, c.want)
		}
	}

	cancel()
	if err := <-done; err != nil {
		t.Errorf("at the end: %v", err)
	}
	for _, address := range []string{o.Address, o.HealthAddress} {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s is still served", address)
		}
	}
}

// TestRunFails: an address that is in use is an error, and the other one is not kept.
func TestRunFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free := freeAddress(t)
	for what, o := range map[string]Options{
		"serving the kubelet API": {Address: taken.Addr().String(), HealthAddress: free},
		"serving health":          {Address: free, HealthAddress: taken.Addr().String()},
	} {
		o.NodeName, o.TLS.CertDir, o.Pods = "n", tempDir(t), func() []pod.View { return nil }
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), what+": ") {
			t.Errorf("error %v, want one of %s", err, what)
		}
		if conn, err := net.Dial("tcp", free); err == nil {
			conn.Close()
			t.Errorf("%s: the other address is still served", what)
		}
	}
}

func TestRunCommand(t *testing.T) {
	var asked []string
	srv := startServer(t, Options{Pods: func() []pod.View { return view("") }, Auth: AuthOptions{Anonymous: true},
		Exec: func(_ context.Context, id string, command []string, _ time.Duration) (int, []byte, error) {
			asked = append([]string{id}, command...)
			switch command[0] {
			case "fail":
				return 3, []byte("why\n"), nil
			case "break":
				return 0, nil, errors.New("no runtime")
			}
			return 0, []byte("out\n"), nil
		}})

	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/run/ns/p/c?cmd=ls+-l", 200, "out\n"},
		{"/run/ns/p/u1/c?cmd=ls", 200, "out\n"},
		{"/run/ns/p/c?cmd=fail", 500, "command terminated with exit code 3: why\n\n"},
		{"/run/ns/p/c?cmd=break", 500, "no runtime\n"},
		{"/run/ns/p/other?cmd=ls", 404, "container not found (\"other\")\n"},
	} {
		if code, _, body := ask(t, http.MethodPost, srv.URL+c.path, ""); code != c.code || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
		if c.path == "/run/ns/p/c?cmd=ls+-l" && strings.Join(asked, " ") != "cid ls -l" {
			t.Errorf("asked for %q", asked)
		}
	}
}

// TestRunningPods shows containers that run, and pods that have one.
func TestRunningPods(t *testing.T) {
	views := view("")
	srv := startServer(t, Options{Pods: func() []pod.View { return views }, Auth: AuthOptions{Anonymous: true}})
	views[0].Pod.Spec.NodeName = "n"
	_, body := get(t, client(), srv.URL+"/runningpods/", "")
	if !strings.Contains(body, `"name":"p"`) || !strings.Contains(body, `"name":"c"`) ||
		strings.Contains(body, `"name":"new"`) || strings.Contains(body, "nodeName") {
		t.Errorf("running pods: %s", body)
	}

	views[0].Containers = nil
	if _, body := get(t, client(), srv.URL+"/runningpods/", ""); !strings.Contains(body, `"items":[]`) {
		t.Errorf("without a container that runs: %s", body)
	}
}

func TestSetVerbosity(t *testing.T) {
	srv := startServer(t, Options{Pods: func() []pod.View { return nil }, Auth: AuthOptions{Anonymous: true}})
	put := func(text string) (int, string) {
		t.Helper()
		req, _ := http.NewRequest(http.MethodPut, srv.URL+"/debug/flags/v", strings.NewReader(text))
		resp, err := client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if code, body := put("many"); code != 400 ||
		!strings.Contains(body, `failed to set klog.logging.verbosity "many"`) {
		t.Errorf("not a number: %d %s", code, body)
	}
	if code, body := put("0"); code != 200 || body != "successfully set klog.logging.verbosity to 0" ||
		klog.V(1).Enabled() {
		t.Errorf("a number: %d %s", code, body)
	}
}

// TestTrim: a full cache loses what has expired, or everything if nothing has.
func TestTrim(t *testing.T) {
	fill := func(until time.Time, expired int) map[[32]byte]cached[bool] {
		m := map[[32]byte]cached[bool]{}
		for i := range maxCached {
			at := until
			if i < expired {
				at = time.Now().Add(-time.Minute)
			}
			m[[32]byte{byte(i), byte(i >> 8)}] = cached[bool]{until: at}
		}
		return m
	}
	later := time.Now().Add(time.Hour)
	for _, c := range []struct{ expired, left int }{{0, 0}, {1, maxCached - 1}, {maxCached, 0}} {
		m := fill(later, c.expired)
		if trim(m); len(m) != c.left {
			t.Errorf("%d of %d expired: %d left, want %d", c.expired, maxCached, len(m), c.left)
		}
	}
}

// TestPaceOfStatistics: statistics are taken each minute while nobody reads them, each ten seconds for five minutes
// after a read.
func TestPaceOfStatistics(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		s := newSampler(Options{Stats: &fixedStats{}, Pods: func() []pod.View { return nil }})
		s.summary.ask = func(context.Context) (*statsapi.Summary, error) {
			calls.Add(1)
			return &statsapi.Summary{}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go s.run(ctx)
		during := func(d time.Duration) int {
			before := calls.Load()
			time.Sleep(d)
			bubble.Wait()
			return int(calls.Load() - before)
		}
		during(time.Second) // the first one is taken at once

		if n := during(10 * time.Minute); n != 10 {
			t.Errorf("%d in ten minutes without a reader", n)
		}
		if _, err := s.get(ctx); err != nil {
			t.Fatal(err)
		}
		if n := during(5 * time.Minute); n < 28 || n > 31 {
			t.Errorf("%d in five minutes after a read", n)
		}
		if n := during(10 * time.Minute); n < 9 || n > 11 {
			t.Errorf("%d in ten minutes later on", n)
		}
		cancel()
		bubble.Wait()
	})
}

// TestSlowHeads: who connects and sends no request, or half of one, with or without TLS, is disconnected after a time.
func TestSlowHeads(t *testing.T) {
	s, err := New(Options{NodeName: "n", TLS: TLSOptions{CertDir: tempDir(t)}, Pods: func() []pod.View { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	server := serverOf(s)
	if server.ReadHeaderTimeout <= 0 || server.ReadHeaderTimeout > time.Minute {
		t.Errorf("the head of a request may take %v", server.ReadHeaderTimeout)
	}
	server.ReadHeaderTimeout = min(server.ReadHeaderTimeout, 300*time.Millisecond)
	server.ErrorLog = log.New(io.Discard, "", 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.ServeTLS(l, "", "")
	defer server.Close()

	for name, send := range map[string]func(net.Conn) io.Reader{
		"nothing": func(c net.Conn) io.Reader { return c },
		"half a request": func(c net.Conn) io.Reader {
			secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			if _, err := secure.Write([]byte("GET /pods HTTP/1.1\r\nHost: n\r\n")); err != nil {
				t.Error(err)
			}
			return secure
		},
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		from := send(c)
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, from); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: still connected", name)
		}
		c.Close()
	}
}

// TestMadeUpTokens: a flood of tokens that nobody knows from one address asks the API server a few times only, is
// answered 429, and neither pushes out the answer about a token that is valid nor keeps clients at other addresses
// out. A token that was refused is not asked about again.
func TestMadeUpTokens(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := &reviewer{}
		g := newGuard(AuthOptions{Tokens: true, Reviewer: r, TokenTTL: time.Hour}, "n")
		handler := g.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(remote, token string) int {
			req := httptest.NewRequest("GET", "/pods", nil)
			req.RemoteAddr = remote
			req.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, req)
			return w.Code
		}
		if code := ask("10.0.0.1:1000", "good"); code != http.StatusOK {
			t.Fatalf("a valid token: %d", code)
		}

		codes := map[int]int{}
		for i := range 10000 {
			codes[ask(fmt.Sprintf("10.0.0.2:%d", 1024+i), fmt.Sprint("made-up-", i))]++
		}
		if n := r.reviews.Load() - 1; n > askedAtOnce || codes[http.StatusTooManyRequests] < 9900 ||
			codes[http.StatusUnauthorized] != int(n) {
			t.Errorf("the API server was asked %d times, answers %v", n, codes)
		}

		before := r.reviews.Load()
		if code := ask("10.0.0.2:1", "good"); code != http.StatusOK || r.reviews.Load() != before {
			t.Errorf("a token that is known, from the same address: %d, %d more reviews", code, r.reviews.Load()-before)
		}
		if code := ask("10.0.0.2:1", "made-up-0"); code != http.StatusUnauthorized || r.reviews.Load() != before {
			t.Errorf("a token that was refused: %d, %d more reviews", code, r.reviews.Load()-before)
		}
		if code := ask("10.0.0.3:1", "another"); code != http.StatusUnauthorized {
			t.Errorf("an unknown token from another address: %d", code)
		}
		time.Sleep(time.Second) // of the bubble
		if code := ask("10.0.0.2:1", "late"); code != http.StatusUnauthorized {
			t.Errorf("a second later: %d", code)
		}

		for i := range 3 * maxAddresses { // from everywhere
			ask(fmt.Sprintf("10.1.%d.%d:1", i/250, i%250), fmt.Sprint("spread-", i))
		}
		if n := r.reviews.Load(); n > allAskedAtOnce+2*allAskedPerSecond+askedAtOnce || len(g.asked.of) > maxAddresses {
			t.Errorf("the API server was asked %d times, %d addresses are remembered", n, len(g.asked.of))
		}
	})
}
