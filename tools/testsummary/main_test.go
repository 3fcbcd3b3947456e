package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	cases := []struct {
		name, events string
		ok           bool
		want         []string
	}{
		{"passed", `{"Action":"pass","Package":"a","Test":"TestA"}
{"Action":"pass","Package":"a","Elapsed":1.5}`, true, []string{"ok   a", "tests: 1 passed, 0 failed, 0 skipped"}},
		{"failed with its output", `{"Action":"output","Package":"a","Test":"TestA","Output":"x_test.go:1: bad\n"}
{"Action":"fail","Package":"a","Test":"TestA"}
{"Action":"fail","Package":"a"}`, false, []string{"FAIL a", "     x_test.go:1: bad", "FAILED   a TestA\n         x_test.go:1: bad\ntests:"}},
		{"skipped with its reason", `{"Action":"output","Package":"a","Test":"TestA","Output":"x_test.go:1: no root\n"}
{"Action":"skip","Package":"a","Test":"TestA"}
{"Action":"pass","Package":"a","Test":"TestB"}`, true, []string{"skipped  a TestA: x_test.go:1: no root"}},
		{"does not build", `{"ImportPath":"a [a.test]","Action":"build-output","Output":"a.go:1: undefined\n"}
{"Action":"pass","Package":"b","Test":"TestB"}
{"Action":"fail","Package":"a"}`, false, []string{"a.go:1: undefined", "1 packages broken"}},
		{"does not end", `{"Action":"output","Package":"a","Test":"TestA","Output":"much before\n"}
{"Action":"output","Package":"a","Test":"TestA","Output":"panic: test timed out after 1s\n"}
{"Action":"output","Package":"a","Test":"TestA","Output":"goroutine 7 [select]:\n"}
{"Action":"fail","Package":"a"}`, false, []string{"     TestA:\n     panic: test timed out after 1s\n     goroutine 7 [select]:\n", "1 packages broken"}},
		{"nothing ran", ``, false, []string{"tests: 0 passed"}},
		{"text between events", "go: downloading\n" + `{"Action":"pass","Package":"b","Test":"TestB"}`, true,
			[]string{"go: downloading"}},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			if ok := s.finish(); ok != c.ok {
				t.Errorf("finish() = %v, want %v", ok, c.ok)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}

// TestSlowest: the ten tests that took longest are named, the longest first; subtests and quick tests are not.
func TestSlowest(t *testing.T) {
	var out, events strings.Builder
	for i := range 12 {
		fmt.Fprintf(&events, `{"Action":"pass","Package":"a","Test":"Test%d","Elapsed":%d}`+"\n", i, i+1)
		fmt.Fprintf(&events, `{"Action":"pass","Package":"a","Test":"Test%d/part","Elapsed":99}`+"\n", i)
	}
	s := newSummary(&out)
	if err := s.read(strings.NewReader(events.String())); err != nil {
		t.Fatal(err)
	}
	s.finish()

	var named []string
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "slow" {
			named = append(named, f[3])
		}
	}
	if got := strings.Join(named, " "); got != "Test11 Test10 Test9 Test8 Test7 Test6 Test5 Test4 Test3 Test2" {
		t.Errorf("the slowest are %s", got)
	}
}
