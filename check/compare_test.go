package check

import (
	"strings"
	"testing"
)

func facts() []Fact {
	return []Fact{
		{Number: 4, Line: "attach.again", Fact: "Second attach?", Assume: "success", Source: "s", Probe: "hns",
			Changes: true, holds: oneOf("ok")},
		{Number: 5, Line: "namespaces", Fact: "Which?", Assume: "HostDefault", Source: "s", Probe: "hns",
			holds: has("HostDefault")},
		{Number: 9, Line: "seconds", Fact: "How long?", Assume: "at most 10 s", Source: "s", Probe: "host",
			holds: atMost(10)},
	}
}

func TestCompare(t *testing.T) {
	hns := func(changed bool, lines ...Line) Report { return Report{Probe: "hns", Changed: changed, Lines: lines} }

	for name, tc := range map[string]struct {
		reports []Report
		want    [3]Outcome
	}{
		"nothing ran": {nil, [3]Outcome{NotAsked, NotAsked, NotAsked}},
		"as assumed": {[]Report{hns(true, Line{Name: "attach.again", Value: "ok"})},
			[3]Outcome{AsAssumed, NotAsked, NotAsked}},
		"a code": {[]Report{hns(true, Line{Name: "attach.again", Value: "0x5"})},
			[3]Outcome{Differs, NotAsked, NotAsked}},
		"a list": {[]Report{hns(false, Line{Name: "namespaces", Value: "Guest, HostDefault"})},
			[3]Outcome{NotAsked, AsAssumed, NotAsked}},
		"a list without it": {[]Report{hns(false, Line{Name: "namespaces", Value: "Guest, Host"})},
			[3]Outcome{NotAsked, Differs, NotAsked}},
		"the last of two lines counts": {
			[]Report{hns(true, Line{Name: "attach.again", Value: "0x5"}, Line{Name: "attach.again", Value: "ok"})},
			[3]Outcome{AsAssumed, NotAsked, NotAsked}},
		"the same line of another probe": {
			[]Report{{Probe: "host", Lines: []Line{{Name: "namespaces", Value: "none"}}}},
			[3]Outcome{NotAsked, NotAsked, NotAsked}},
		"a number": {[]Report{{Probe: "host", Lines: []Line{{Name: "seconds", Value: "10"}}}},
			[3]Outcome{NotAsked, NotAsked, AsAssumed}},
		"a larger one": {[]Report{{Probe: "host", Lines: []Line{{Name: "seconds", Value: "11"}}}},
			[3]Outcome{NotAsked, NotAsked, Differs}},
		"never": {[]Report{{Probe: "host", Lines: []Line{{Name: "seconds", Value: "never"}}}},
			[3]Outcome{NotAsked, NotAsked, Differs}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, f := range Compare(facts(), tc.reports) {
				if f.Outcome != tc.want[i] {
					t.Errorf("%s: %s, want %s", f.Line, f.Outcome, tc.want[i])
				}
			}
		})
	}
}

func TestPrint(t *testing.T) {
	findings := Compare(facts(),
		[]Report{{Probe: "hns", Lines: []Line{{Name: "namespaces", Value: "0x5", Error: "access is denied"}}}})
	var out strings.Builder
	if err := Print(&out, findings, true); err != nil {
		t.Fatal(err)
	}
	want := `differs: Which? (question 5)
  this host: namespaces 0x5 (access is denied)
  assumed:   HostDefault
not asked: seconds
not asked without changes to the machine: attach.again
0 as assumed, 1 differ, 2 not asked
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestVersionAtLeast(t *testing.T) {
	for v, want := range map[string]bool{"9.2": true, "9.1": false, "10.0": true, "13.3": true, "8.9": false, "": false,
		"failed": false, "0x5": false} {
		if got := versionAtLeast(9, 2)(v); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}
