package serve

import (
	"errors"
	"net/url"
	"testing"
)

// TestJudge: the parts of the health in upstream's form, without the reason of one that fails.
func TestJudge(t *testing.T) {
	sick := errors.New("the router is stuck")
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
		{"verbose=true&exclude=syncloop&exclude=ping", sick, 0, "[+]ping excluded: ok\n[+]log ok\n[+]syncloop excluded: ok\nhealthz check passed\n"},
		{"exclude=x&exclude=b&exclude=log", sick, 1, "[+]ping ok\n[+]log excluded: ok\n[-]syncloop failed: reason withheld\n" +
			"warn: some health checks cannot be excluded: no matches for \"b\",\"x\"\nhealthz check failed"},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}

		all := checksOf(func() error { return c.loop })
		if failed, got := judge("healthz", all, query); len(failed) != c.failed || got != c.want {
			t.Errorf("%q, %v: failed %v, %q, want %q", c.query, c.loop, failed, got, c.want)
		}
	}
	if _, got := judge("healthz", checksOf(nil), url.Values{}); got != "ok" {
		t.Errorf("a kubelet without a check of its own: %q", got)
	}
}
