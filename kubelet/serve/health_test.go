package serve

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// TestJudge: the parts of the health in upstream's form, without the reason of one that fails.
func TestJudge(t *testing.T) {
	sick, counts := errors.New("the router is stuck"), newSLIs()
	for _, c := range []struct {
		query  string
		loop   error
		failed int
		want   string
	}{
		{"", nil, 0, "ok"},
		{"verbose", nil, 0, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"},
		{"", sick, 1, "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed"},
		{"exclude=syncloop", sick, 0, "ok"},
		{"verbose=true&exclude=syncloop&exclude=ping", sick, 0,
			"[+]ping excluded: ok\n[+]log ok\n[+]syncloop excluded: ok\nhealthz check passed\n"},
		{"exclude=x&exclude=b&exclude=log", sick, 1,
			"[+]ping ok\n[+]log excluded: ok\n[-]syncloop failed: reason withheld\n" +
				"warn: some health checks cannot be excluded: no matches for \"b\",\"x\"\nhealthz check failed"},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}

		all := checksOf(func() error { return c.loop })
		if failed, got := judge("healthz", all, query, counts); len(failed) != c.failed || got != c.want {
			t.Errorf("%q, %v: failed %v, %q, want %q", c.query, c.loop, failed, got, c.want)
		}
	}
	page := httptest.NewRecorder()
	promhttp.HandlerFor(counts.registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{`healthchecks_total{name="ping",status="success",type="healthz"} 5`,
		`healthchecks_total{name="log",status="success",type="healthz"} 5`,
		`healthchecks_total{name="syncloop",status="success",type="healthz"} 2`,
		`healthchecks_total{name="syncloop",status="error",type="healthz"} 2`,
		`kubernetes_healthcheck{name="syncloop",type="healthz"} 0`,
		`kubernetes_healthcheck{name="ping",type="healthz"} 1`, "process_start_time_seconds 1"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the figures have no %s:\n%s", want, page.Body)
		}
	}
	if _, got := judge("healthz", checksOf(nil), url.Values{}, newSLIs()); got != "ok" {
		t.Errorf("a kubelet without a check of its own: %q", got)
	}
}
