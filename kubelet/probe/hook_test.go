package probe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
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
		fell, err := HookGet(context.Background(), &v1.HTTPGetAction{Path: "/stop?now=1", Port: intstr.FromString("web"), Scheme: c.scheme,
			HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: "Basic x"}}}, target)
		if err != nil || fell != c.fell || path != "/stop?now=1" || agent != "kube-lifecycle/1.36" || credentials != c.credentials {
			t.Errorf("%s: fell back %v, error %v, asked for %q as %q with %q", c.name, fell, err, path, agent, credentials)
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

// TestPanicOfAProbe: it is an error that does not count, and the probe runs again.
func TestPanicOfAProbe(t *testing.T) {
	m := New(Options{Exec: nil, Report: func(Result) {}})
	if _, err := m.guarded(context.Background(), &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{}}}, Target{}); err == nil {
		t.Error("no error")
	}
}
