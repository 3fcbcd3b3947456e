package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"porthole.dev/porthole/kubelet/pod"
)

// TestPrograms: the kubelet passes on questions about what the node's programs know, and nothing else.
func TestPrograms(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("a redirect was followed")
		w.Write([]byte("SECRET"))
	}))
	defer elsewhere.Close()
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/diff" {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(r.Method + " " + r.URL.RequestURI()))
	}))
	defer program.Close()
	s, err := New(Options{NodeName: "n", TLS: TLSOptions{CertDir: tempDir(t)}, Pods: func() []pod.View { return nil },
		Extra: Programs{Addresses: map[string]string{"proxy": strings.TrimPrefix(program.URL, "http://"),
			"away": "127.0.0.1:1"},
			Facts: func(context.Context) (any, error) { return map[string]string{"name": "n"}, nil }}.Routes()})
	if err != nil {
		t.Fatal(err)
	}
	handler := muxOf(s.routes())

	for _, c := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/porthole/proxy/status?service=a/b", 200, "GET /status?service=a/b"},
		{"GET", "/porthole/proxy/metrics", 200, "GET /metrics"},
		{"GET", "/porthole/facts", 200, `{"name":"n"}`},
		{"GET", "/porthole/proxy/diff", 302, "Found"},
		{"GET", "/porthole/proxy/configz", 404, ""},
		{"GET", "/porthole/proxy/debug", 404, ""},
		{"GET", "/porthole/other/status", 404, ""},
		{"GET", "/porthole/proxy/..%2fdebug", 404, ""},
		{"POST", "/porthole/proxy/status", 405, ""},
		{"GET", "/porthole/away/status", 502, "asking away of this node"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, w.Code, w.Body, c.code, c.body)
		}
	}
}
