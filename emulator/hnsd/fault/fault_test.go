package fault

import (
	"strings"
	"testing"
	"time"
)

func TestFaultTurns(t *testing.T) {
	const ask = "HcnDeleteLoadBalancer"

	for _, c := range []struct {
		name  string
		rule  Rule
		calls int
		want  string // x: used on that call
	}{
		{"each", Rule{Function: "HcnDelete*"}, 4, "xxxx"},
		{"all functions", Rule{}, 2, "xx"},
		{"another function", Rule{Function: "HcnCreate*"}, 2, ".."},
		{"the third", Rule{Function: "*", Nth: 3}, 5, "..x.."},
		{"two times", Rule{Function: "*", Times: 2}, 4, "xx.."},
		{"by document", Rule{Function: "*", Match: `10\.96\.0\.10"`}, 3, "xxx"},
		{"by another document", Rule{Function: "*", Match: `10\.96\.0\.11"`}, 3, "..."},
		{"another program", Rule{Function: "*", Program: "kubelet.exe"}, 2, ".."},
		{"that program", Rule{Function: "*", Program: "KUBE-proxy.exe"}, 2, "xx"},
		{"probability", Rule{Function: "*", Probability: 0.5, Seed: 7}, 8, "..xxxxxx"},
		{"other seed", Rule{Function: "*", Probability: 0.5, Seed: 8}, 8, ".x.xx..."},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Rules
			if err := f.Set([]*Rule{&c.rule}); err != nil {
				t.Fatal(err)
			}
			got := ""
			for range c.calls {
				used := f.Match("kube-proxy.exe", ask, func() string { return `{"FrontendVIPs":["10.96.0.10"]}` })
				if used.Function == "" {
					got += "."
				} else {
					got += "x"
				}
			}
			if got != c.want {
				t.Errorf("used on %s, want %s", got, c.want)
			}
			if hits := f.List()[0].Hits; hits != strings.Count(got, "x") {
				t.Errorf("%d hits told, %s", hits, got)
			}
		})
	}
}

// TestFaultProbability holds the share of a long run to what the rule says.
func TestFaultProbability(t *testing.T) {
	var f Rules
	if err := f.Set([]*Rule{{Function: "*", Probability: 0.1, Seed: 1}}); err != nil {
		t.Fatal(err)
	}
	for range 10000 {
		f.Match("p", "HcnOpenNetwork", func() string { return "" })
	}
	if hits := f.List()[0].Hits; hits < 900 || hits > 1100 {
		t.Errorf("%d of 10000 calls, want a tenth", hits)
	}
}

func TestFaultWindow(t *testing.T) {
	f := Rule{ForMs: 100}
	begin := time.Unix(1000, 0)
	if err := f.prepare(begin); err != nil {
		t.Fatal(err)
	}
	subject := func() string { return "" }
	if !f.fits("p", "HcnOpenNetwork", begin.Add(99*time.Millisecond), subject) {
		t.Error("it does not hold within its window")
	}
	if f.fits("p", "HcnOpenNetwork", begin.Add(101*time.Millisecond), subject) {
		t.Error("it holds after its window")
	}
}

func TestFaultRefused(t *testing.T) {
	for name, rule := range map[string]*Rule{
		"action": {Action: "explode"}, "pattern": {Match: "("}, "no code": {Action: "fail"},
		"success code": {Action: "after", Code: 5},
		"no fields":    {Action: "strip"}, "function": {Function: "["}, "probability": {Probability: 2},
		"negative": {Nth: -1}, "nil": nil,
	} {
		var f Rules
		if err := f.Set([]*Rule{{Action: "skip"}, rule}); err == nil || !strings.HasPrefix(err.Error(), "rule 2") {
			t.Errorf("%s: error %v", name, err)
		}
		if len(f.List()) != 0 {
			t.Errorf("%s: a part of the rules was taken", name)
		}
	}
}

// A call is held by the rule that it met: when that is replaced before the call begins to wait, the call does not wait
// for the next rules.
func TestHold(t *testing.T) {
	var rules Rules
	set := func() {
		if err := rules.Set([]*Rule{{Function: "A", Action: "mute"}}); err != nil {
			t.Fatal(err)
		}
	}
	set()
	early := rules.Match("p", "A", func() string { return "" })
	set()
	late := rules.Match("p", "A", func() string { return "" })

	ended, releaseEarly := rules.Hold(early)
	select {
	case <-ended:
	default:
		t.Error("a call waits for other rules than its own")
	}
	waiting, releaseLate := rules.Hold(late)
	select {
	case <-waiting:
		t.Error("a call does not wait for its rule's end")
	default:
	}
	if got := rules.List()[0].Held; got != 1 {
		t.Errorf("%d calls are held, want 1", got)
	}
	releaseEarly()
	releaseLate()
	if got := rules.List()[0].Held; got != 0 {
		t.Errorf("%d calls are held after their release", got)
	}
}
