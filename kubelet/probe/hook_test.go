package probe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestHookGet(t *testing.T) {
	var path, agent, credentials string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, agent, credentials = r.URL.RequestURI(), r.UserAgent(), r.Header.Get("Authorization")
		w.WriteHeader(http.StatusTeapot) // an answer all the same
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()

	for _, c := range []struct {
		name        string
		server      *httptest.Server
		scheme      v1.URIScheme
		fell        bool
		credentials string
	}{
		{"http", plain, v1.URISchemeHTTP, false, "Basic x"},
		{"https without a certificate that anybody knows", secure, v1.URISchemeHTTPS, false, "Basic x"},
		{"https, answered in http: again, without credentials", plain, v1.URISchemeHTTPS, true, ""},
	} {
		u, _ := url.Parse(c.server.URL)
		target, _ := targetOf(t, u.Host)
		path = ""
		fell, err := HookGet(context.Background(),
			&v1.HTTPGetAction{Path: "/stop?now=1", Port: intstr.FromString("web"), Scheme: c.scheme,
				HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: "Basic x"}}}, target)
		if err != nil || fell != c.fell || path != "/stop?now=1" || agent != "kube-lifecycle/1.36" ||
			credentials != c.credentials {
			t.Errorf("%s: fell back %v, error %v, asked for %q as %q with %q", c.name, fell, err, path, agent,
				credentials)
		}
	}

	target, port := targetOf(t, "127.0.0.1:1")
	if _, err := HookGet(context.Background(), &v1.HTTPGetAction{Port: port}, target); err == nil {
		t.Error("a closed port is no error")
	}
	if _, err := HookGet(context.Background(), &v1.HTTPGetAction{Port: intstr.FromString("nope")}, target); err == nil {
		t.Error("an unknown port is no error")
	}
}

// TestHookRedirects: a hook follows a redirect on its own host, also to another port, and one to another host ends it
// without a request there.
func TestHookRedirects(t *testing.T) {
	var asked []string
	note := func(name string) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { asked = append(asked, name) }
	}
	other, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("no second address of the loopback here:", err)
	}
	elsewhere := &httptest.Server{Listener: other, Config: &http.Server{Handler: note("elsewhere")}}
	elsewhere.Start()
	defer elsewhere.Close()
	port := httptest.NewServer(note("other port"))
	defer port.Close()

	mux := http.NewServeMux()
	mux.Handle("/away", http.RedirectHandler(elsewhere.URL+"/secret", http.StatusFound))
	mux.Handle("/port", http.RedirectHandler(port.URL, http.StatusFound))
	mux.Handle("/path", http.RedirectHandler("/here", http.StatusTemporaryRedirect))
	mux.Handle("/around", http.RedirectHandler("/around", http.StatusFound))
	mux.HandleFunc("/here", note("here"))
	server := httptest.NewServer(mux)
	defer server.Close()
	u, _ := url.Parse(server.URL)

	for path, want := range map[string]string{"/away": "", "/port": "other port", "/path": "here", "/around": ""} {
		target, _ := targetOf(t, u.Host)
		asked = nil
		_, err := HookGet(t.Context(), &v1.HTTPGetAction{Path: path, Port: intstr.FromString("web")}, target)
		if got := strings.Join(asked, " "); got != want || (err != nil) != (path == "/around") {
			t.Errorf("%s: %q was asked, %v", path, got, err)
		}
	}
}

// TestPanicOfAProbe: it is an error that does not count, and the probe runs again.
func TestPanicOfAProbe(t *testing.T) {
	m := New(Options{Exec: nil, Report: func(Result) {}})
	if _, err := m.guarded(context.Background(), &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{}}},
		Target{}); err == nil {
		t.Error("no error")
	}
}
