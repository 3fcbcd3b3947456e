package ovn

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

func TestRivalOf(t *testing.T) {
	refused := answer{Err: syscall.ECONNREFUSED}
	windows := answer{Err: &net.OpError{Op: "dial", Err: syscall.Errno(10061)}}
	silent := answer{Err: context.DeadlineExceeded}
	for name, c := range map[string]struct {
		mode, health answer
		want         string
		known        bool
	}{
		"nobody":            {refused, refused, "", true},
		"nobody on Windows": {windows, windows, "", true},
		"a kube-proxy": {answer{Body: "nftables"}, answer{Body: "{}"}, "a kube-proxy in mode nftables",
			true},
		"a kube-proxy without /healthz": {answer{Body: "kernelspace"}, refused, "a kube-proxy in mode kernelspace",
			true},
		"another proxy":            {refused, answer{Body: "{}"}, "a service proxy", true},
		"one that is not ready":    {refused, answer{}, "a service proxy", true},
		"another program at 10249": {answer{}, refused, "", true},
		"no answer in time":        {silent, refused, "", false},
		"no answer at all":         {silent, silent, "", false},
	} {
		got, known := rivalOf(c.mode, c.health)
		if known != c.known || !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q known %t, want %q known %t", name, got, known, c.want, c.known)
		}
	}
}

// TestAsk: answers and closed ports of this host are told apart.
func TestAsk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/proxyMode" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("nftables\n"))
	}))
	url := server.URL
	if a := ask(t.Context(), url+"/proxyMode"); a.Err != nil || a.Body != "nftables" {
		t.Errorf("the mode: %+v", a)
	}
	if a := ask(t.Context(), url+"/healthz"); a.Err != nil || a.Body != "" {
		t.Errorf("a proxy that is not healthy: %+v", a)
	}
	server.Close()
	if a := ask(t.Context(), url); a.Err == nil || !closed(a) {
		t.Errorf("a closed port: %+v", a)
	}
}

// TestRival: a service proxy is a problem, and changes nothing.
func TestRival(t *testing.T) {
	seen := settled()
	seen.Rival = "a kube-proxy in mode nftables"
	p := makePlan(options, nodes, seen)
	if len(p.Ops) > 0 || len(p.Problems) != 1 {
		t.Fatalf("plan:\n%s", p)
	}
	for _, want := range []string{"a kube-proxy in mode nftables", "worker-1",
		"OVN load balancers of porthole routes --mode ovn", "kube-proxy --cleanup"} {
		if !strings.Contains(p.Problems[0], want) {
			t.Errorf("%q does not say %q", p.Problems[0], want)
		}
	}
	if p := makePlan(options, nodes, settled()); len(p.Problems) > 0 {
		t.Errorf("problems of a node without one: %q", p.Problems)
	}
}
