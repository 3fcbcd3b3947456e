package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A report as ginkgo writes it, cut down: set-up, four tests in four states, and one that the focus left out.
const sampleReport = `[{"SpecReports": [
 {"LeafNodeType": "BeforeSuite", "State": "passed"},
 {"ContainerHierarchyTexts": ["[sig-node] Pods", "when x"], "LeafNodeType": "It", "LeafNodeText": "work [Conformance]", "State": "passed",
  "StartTime": "2026-11-21T22:00:00.5Z", "RunTime": 1500000000},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "fail | here", "State": "timedout",
  "StartTime": "2026-11-21T22:01:00Z", "RunTime": 1000000000, "Failure": {"Message": "waiting for it\nmore"}},
 {"ContainerHierarchyTexts": ["[sig-storage] Disks"], "LeafNodeType": "It", "LeafNodeText": "skip", "State": "skipped",
  "StartTime": "2026-11-21T22:02:00Z", "Failure": {"Message": "no disks"}},
 {"ContainerHierarchyTexts": ["[sig-apps] Jobs"], "LeafNodeType": "It", "LeafNodeText": "cut off", "State": "timedout",
  "Failure": {"Message": "A suite timeout occurred"}},
 {"ContainerHierarchyTexts": ["[sig-apps] Jobs"], "LeafNodeType": "It", "LeafNodeText": "left out", "State": "skipped"}
]}]`

// What comes out otherwise with upstream's kubelet is listed, and what a large suite skips is counted by its reason.
func TestBesideUpstream(t *testing.T) {
	with := func(states ...string) results {
		r := results{}
		for i, s := range states {
			r.add([]result{{Name: "External " + string(rune('a'+i)), State: s, Message: "no disks",
				When: "2026-11-26T23:00:00Z"}})
		}
		return r
	}
	text := document(map[string]results{"storage-csi-lin": with(passed, failed, skipped, skipped),
		"storage-csi-lin-upstream": with(passed, passed, skipped)}, reasons{})
	for _, want := range []string{"## Storage drivers on Linux nodes\n",
		"## Storage drivers on Linux nodes with upstream's kubelet\n",
		"Of 3 tests that ran with upstream's kubelet too, 1 came out otherwise.\n\n| test | ours | upstream's |\n|---|---|---|\n| External b | failed | passed |\n",
		"| 2 | no disks |\n", "SUITE=storage-csi KUBELET=upstream`", "Left out: `Snapshot|snapshot`"} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q:\n%s", want, text)
		}
	}
}

// The name of a set of results is made of what was run, and taken apart again.
func TestSetNames(t *testing.T) {
	for _, set := range sets() {
		name, node, kubelet := splitSet(set)
		if got := setName(name, node, kubelet); got != set {
			t.Errorf("%s is made %s of %s, %s, %s", set, got, name, node, kubelet)
		}
		if _, known := suites[name]; !known || title(set) == "" {
			t.Errorf("%s is of no suite", set)
		}
	}
	for _, bad := range [][3]string{{"nope", "lin", ours}, {storageCSI, "win", ours}, {sigWindows, "lin", ours},
		{"node", "lin", "theirs"}, {"autoscaling", "win", upstreams}} {
		if checkSuite(bad[0], bad[1], bad[2]) == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func sampleResults(t *testing.T) results {
	t.Helper()
	list, err := readReport(strings.NewReader(sampleReport))
	if err != nil {
		t.Fatal(err)
	}
	r := results{}
	r.add(list)
	return r
}

// A newer result takes the place of an older one; passes in a row are counted, each run once; an older report changes
// nothing.
func TestAddCountsPassesInARow(t *testing.T) {
	r := results{}
	for _, step := range []struct {
		when, state string
		row         int
	}{
		{"2026-11-21T22:00:00Z", passed, 1},
		{"2026-11-21T22:00:00Z", passed, 1},
		{"2026-11-21T23:00:00Z", passed, 2},
		{"2026-11-21T23:30:00Z", unfinished, 2},
		{"2026-11-21T22:30:00Z", failed, 2},
		{"2026-11-22T00:00:00Z", passed, 3},
		{"2026-11-22T01:00:00Z", failed, 0},
		{"2026-11-22T02:00:00Z", passed, 1},
	} {
		r.add([]result{{Name: "a", State: step.state, When: step.when}})
		if got := r["a"].Row; got != step.row {
			t.Errorf("%s at %s: passed %d times in a row, want %d", step.state, step.when, got, step.row)
		}
	}

	r.add([]result{{Name: "b", State: passed, When: "2026-11-22T02:00:00Z"}})
	r.keep([]result{{Name: "b", State: unfinished}})
	if len(r) != 1 || r["b"].Row != 1 {
		t.Errorf("after a whole run without test a: %v", r)
	}
}

// TestReadReport: a report of ginkgo becomes results by name.
func TestReadReport(t *testing.T) {
	want := results{
		"[sig-node] Pods when x work [Conformance]": {Name: "[sig-node] Pods when x work [Conformance]", State: passed,
			Seconds: 1.5, When: "2026-11-21T22:00:00Z", Row: 1},
		"[sig-node] Pods fail | here": {Name: "[sig-node] Pods fail | here", State: failed, Seconds: 1,
			Message: "waiting for it", When: "2026-11-21T22:01:00Z"},
		"[sig-storage] Disks skip": {Name: "[sig-storage] Disks skip", State: skipped,
			Message: "no disks", When: "2026-11-21T22:02:00Z"},
	}
	if diff := cmp.Diff(want, sampleResults(t)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := readReport(strings.NewReader(`{"a`)); err == nil {
		t.Error("half a report was read without an error")
	}
}

// A reason for a test that passes is an error, and so is a failure without one; a pattern may stand for many tests.
// Row 1.88.
func TestCheckReasons(t *testing.T) {
	have := sampleResults(t)
	for name, c := range map[string]struct {
		why  reasons
		want string
	}{
		"all explained":     {reasons{"lin": {"[sig-node] Pods fail | here": "the machine has no floppy"}}, ""},
		"by pattern":        {reasons{"lin": {`/Pods fail/`: "the machine has no floppy"}}, ""},
		"not explained":     {reasons{"win": {`/Pods fail/`: "of another system"}}, "fails on lin without a reason"},
		"explained, passes": {reasons{"lin": {`/sig-node/`: "too much"}}, "remove its reason: too much"},
	} {
		err := c.why.check("lin", have)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLoadReasons: reasons are read by set, and a pattern that is none is an error.
func TestLoadReasons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reasons.json")
	for text, ok := range map[string]bool{
		`{"lin": {"a test": "a reason"}}`: true,
		`{"lin": {"a test": " "}}`:        false,
		`{"lin": {"/(/": "a reason"}}`:    false,
		`{"lin"`:                          false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := loadReasons(path); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestDocument: the document has a table for each system, and what does not pass with its reason.
func TestDocument(t *testing.T) {
	text := document(map[string]results{"lin": sampleResults(t), "win": {}},
		reasons{"lin": {`/Pods fail/`: "the machine has no floppy"}})
	for _, want := range []string{
		"| sig-node | 1 | 0 | 1 | 0 |", "| sig-storage | 0 | 0 | 0 | 1 |", "| all | 1 | 0 | 1 | 1 |",
		`| [sig-node] Pods fail \| here | the machine has no floppy |`, "| [sig-storage] Disks skip | no disks |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, title("win")) {
		t.Error("the document has a section for nodes without results")
	}
}

// The document in the repository is what the results and reasons beside it give, and each reason is about a test that
// was run and does not pass.
// Row 1.04.
func TestDocumentIsCurrent(t *testing.T) {
	all := map[string]results{}
	why, err := loadReasons("reasons.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range sets() {
		if all[node], err = loadResults("results-" + node + ".json"); err != nil {
			t.Fatal(err)
		}
		for _, one := range all[node].with(passed) {
			if reason := why.of(node, one.Name); reason != "" {
				t.Errorf("%s passes on %s, but has a reason: %s", one.Name, node, reason)
			}
		}
	}
	have, err := os.ReadFile(filepath.Join("..", "..", "docs", "evidence", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document(all, why), string(have)); diff != "" {
		t.Errorf(
			"docs/evidence/conformance.md is not what results and reasons give; `go run ./test/conformance -document` writes it (-want +have)\n%s", diff)
	}
}

// A test that was cut off counts as failed where a reason says why it never ends; otherwise nothing is known about it.
func TestSettle(t *testing.T) {
	list := []result{{Name: "waits for a GPU", State: unfinished, Seconds: 120.4}, {Name: "slow", State: unfinished},
		{Name: "good", State: passed}}
	why := reasons{"win": {"/GPU/": "there is none"}}
	want := []result{{Name: "waits for a GPU", State: failed, Seconds: 120.4, Message: "cut off after 120 s"}, list[1],
		list[2]}
	if diff := cmp.Diff(want, why.settle("win", list)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
