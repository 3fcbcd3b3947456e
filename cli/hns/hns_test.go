package hns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/proxy/health"
)

// TestDiff asks a proxy that answers as ours does, and some that do not.
func TestDiff(t *testing.T) {
	page := func(d health.Diff, err error) http.Handler {
		return health.New(health.Options{}).
			MetricsHandler(health.Pages{Diff: func(context.Context) (any, error) { return d, err }})
	}
	some := health.Diff{Right: 7, Operations: []health.DiffLine{
		{Verb: "create lb", Frontend: "10.96.0.10 80/tcp", Service: "shop/web",
			Text:    "create lb 10.96.0.10 80/tcp -> 10.244.2.5:8080 dsr",
			Problem: "no ports", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		Problems: []health.DiffLine{{Frontend: "node 30080/tcp", Text: "held by a stranger"}}}

	for _, c := range []struct {
		name     string
		handler  http.Handler
		args     []string
		code     int
		out, err string // parts
	}{
		{"equal", page(health.Diff{Equal: true, Right: 7}, nil), nil, 0, "equal: 7 frontends are as wanted\n", ""},
		{"different", page(some, nil), nil, 1,
			"shop/web: create lb 10.96.0.10 80/tcp -> 10.244.2.5:8080 dsr\n  has failed since 2026-01-02T03:04:05Z: no ports\n", ""},
		{"problems", page(some, nil), nil, 1, "node 30080/tcp: held by a stranger", ""},
		{"json", page(some, nil), []string{"-o", "json"}, 1, `"verb": "create lb"`, ""},
		{"host away", page(health.Diff{}, errors.New("RPC server is unavailable")), nil, 2, "",
			"cannot compare: RPC server is unavailable"},
		{"another proxy", http.NotFoundHandler(), nil, 2, "", "has no /diff (404 Not Found)"},
		{"no JSON", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }),
			nil, 2, "", "reading the answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			code, out, errs := run(t, append([]string{"--address", server.Listener.Addr().String()}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) {
				t.Errorf("code %d, want %d\nout: %s\nerr: %s", code, c.code, out, errs)
			}
			if len(c.args) > 0 {
				var d health.Diff
				if err := json.Unmarshal([]byte(out), &d); err != nil || len(d.Operations) != 1 {
					t.Errorf("JSON %s: %v", out, err)
				}
			}
		})
	}

	if code, _, errs := run(t, "--address", "nowhere"); code != 2 || !strings.Contains(errs, "--address") {
		t.Errorf("bad address: %d, %s", code, errs)
	}
	if code, _, errs := run(t, "-o", "yaml"); code != 2 || !strings.Contains(errs, "-o yaml") {
		t.Errorf("unknown output: %d, %s", code, errs)
	}
	if code, _, errs := run(t, "win01"); code != 2 || !strings.Contains(errs, "--node") {
		t.Errorf("an argument: %d, %s", code, errs)
	}

	if code, _, errs := run(t, "--node", "win09"); code != 2 || !strings.Contains(errs, "node") {
		t.Errorf("unknown node: %d, %s", code, errs)
	}
}

// run returns the exit code; -1 stands for an error without one.
func run(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	c := Command()
	var out, errs bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append([]string{"diff"}, args...))
	err := c.ExecuteContext(t.Context())
	var coded program.ExitCode
	switch {
	case errors.As(err, &coded):
		return int(coded), out.String(), errs.String()
	case err != nil:
		return -1, out.String(), errs.String()
	}
	return 0, out.String(), errs.String()
}
