package top

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/web/model"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestPrint: pods are counted by system and by node, old and missing answers are said, and rates come from the last
// two samples.
func TestPrint(t *testing.T) {
	s := model.Snapshot{
		Cluster: model.Cluster{Name: "shop", API: model.API{Error: "connection refused", Since: now.Add(-time.Minute)}},
		Nodes: []model.Node{
			{Name: "lin01", OS: "linux", Routes: model.Routes{Part: model.Part{Known: true}, Wanted: 2, Present: 2},
				Proxy: model.Proxy{Part: model.Part{None: true}}},
			{Name: "win01", OS: "windows",
				Routes: model.Routes{Part: model.Part{Known: true, Error: "no answer"}, Wanted: 2, Present: 1},
				Problems: []model.Problem{{State: model.Wrong, Text: "it is not ready",
					Since: now.Add(-5 * time.Second)}}},
		},
		Pods: []model.Pod{{Key: "a/1", Node: "lin01", State: model.Right},
			{Key: "a/2", Node: "win01", State: model.Making,
				Problem: &model.Problem{State: model.Making, Text: "it starts"}},
			{Key: "a/3", Node: "win01", State: model.Unknown}, {Key: "a/4", State: model.Making}},
	}
	counted := func(calls float64) map[[2]string]float64 { return map[[2]string]float64{{"list", "ok"}: calls} }
	samples := map[string][]model.Sample{"win01": {{At: now.Add(-4 * time.Second), Calls: counted(100)},
		{At: now.Add(-2 * time.Second), Calls: counted(0), Seconds: map[string]float64{"list": 0}},
		{At: now, Calls: counted(20), Seconds: map[string]float64{"list": 0.1}}}}

	var out bytes.Buffer
	if err := Print(&out, s, samples, now); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"shop, 12:00:00", "does not answer since 2026-11-01T11:59:00Z: connection refused",
		"on linux nodes 1 0 0", "on windows nodes 0 1 1", "on no node 0 1 0",
		"lin01 1 0 0 2/2 - - - -", "win01 0 1 1 1/2 (old) ? 10.0 0.0 5.0",
		"wrong node win01: it is not ready (5s)", "making pod a/2: it starts",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}

// TestPrintMany: of many problems the first are shown and the rest counted; without one it says so.
func TestPrintMany(t *testing.T) {
	var s model.Snapshot
	var out bytes.Buffer
	if err := Print(&out, s, nil, now); err != nil || !strings.Contains(out.String(), "nothing is wrong") {
		t.Errorf("%v: %s", err, out.String())
	}
	for i := range shown + 4 {
		s.Pods = append(s.Pods, model.Pod{Key: fmt.Sprintf("a/%d", i),
			Problem: &model.Problem{State: model.Wrong, Text: "x"}})
	}
	out.Reset()
	if err := Print(&out, s, nil, now); err != nil || !strings.HasSuffix(out.String(), "and 4 more\n") ||
		strings.Count(out.String(), "pod a/") != shown {
		t.Errorf("%v: %s", err, out.String())
	}
}
