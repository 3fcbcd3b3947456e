package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// result is what became of one test.
type result struct {
	Name    string  `json:"name"`    // full name, as the suite's own list of conformance tests has it
	State   string  `json:"state"`   // passed, failed, skipped; unfinished is never kept
	Seconds float64 `json:"seconds"` // how long it took
	Message string  `json:"message,omitempty"`
	When    string  `json:"when"`          // start, RFC 3339
	Row     int     `json:"row,omitempty"` // how many runs in a row it has passed, the last included
}

// States of a result.
// The words are ginkgo's own, but for unfinished.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
	// unfinished tests were cut off by the limit of the whole run: nothing is known about them.
	unfinished = "unfinished"
)

// enough runs in a row that a test passes make it one that passes always.
const enough = 3

// cutOff is what ginkgo 2.28 says of a test that ran when the time of the suite was over.
const cutOff = "A suite timeout occurred"

// ginkgoReport is the part of ginkgo's JSON report that is used here (ginkgo/v2/types, Report).
type ginkgoReport struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeType            string
		LeafNodeText            string
		State                   string
		StartTime               time.Time
		RunTime                 time.Duration
		Failure                 struct{ Message string }
	}
}

// readReport returns the result of each test that ran. Tests that the focus left out are not in it; a test that skipped
// itself is, because it has a reason of its own.
func readReport(r io.Reader) ([]result, error) {
	var reports []ginkgoReport
	if err := json.NewDecoder(r).Decode(&reports); err != nil {
		return nil, fmt.Errorf("reading ginkgo's report: %w", err)
	}

	var results []result
	for _, report := range reports {
		for _, s := range report.SpecReports {
			// Only an It is a test; the reports of set-up and clean-up have other types.
			if s.LeafNodeType != "It" || s.State == "pending" || s.State == skipped && s.Failure.Message == "" {
				continue
			}
			state := s.State
			switch {
			// Whoever was running or waiting when the run ended has not been judged.
			case state == "interrupted" || state == "aborted" || strings.HasPrefix(s.Failure.Message, cutOff):
				state = unfinished
			case state != passed && state != skipped:
				state = failed // also: timed out, panicked
			}
			results = append(results, result{
				Name: strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " "), State: state,
				Seconds: s.RunTime.Seconds(), Message: s.Failure.Message, When: s.StartTime.UTC().Format(time.RFC3339),
			})
		}
	}

	return results, nil
}

// results by name.
type results map[string]result

// loadResults reads what earlier runs found; a file that is not there is an empty one.
func loadResults(path string) (results, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return results{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := results{}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reading results of earlier runs in %s: %w", path, err)
	}
	for name, one := range r {
		if one.State == passed && one.Row == 0 { // written before the passes were counted
			one.Row = 1
			r[name] = one
		}
	}
	return r, nil
}

// add puts newer results in the place of older ones of the same tests, and counts how often in a row a test has
// passed; a report that was taken in before changes nothing. Of each message only the first line is kept: the rest is
// in the report of the run.
func (r results) add(list []result) {
	for _, one := range list {
		before := r[one.Name]
		if one.State == unfinished || one.When <= before.When {
			continue
		}
		if one.State == passed {
			one.Row = before.Row + 1
		}
		one.Message = firstLine(one.Message)
		one.Seconds = math.Round(one.Seconds*10) / 10
		r[one.Name] = one
	}
}

// keep drops results of tests that are not in list.
func (r results) keep(list []result) {
	maps.DeleteFunc(r, func(name string, _ result) bool {
		return !slices.ContainsFunc(list, func(one result) bool { return one.Name == name })
	})
}

// save sorts by name, as JSON of a map is sorted, so that a change of results is a small diff.
func (r results) save(path string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// with returns the tests in a state, by name.
// The order is by name.
func (r results) with(state string) []result {
	var list []result
	for _, one := range r {
		if one.State == state {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b result) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// reasons say why tests do not pass: node system ("lin", "win"), then a test's full name or a regular expression
// between slashes, then the reason.
type reasons map[string]map[string]string

// loadReasons reads why tests fail or are left out, by node and test. It fails if a reason is empty or a name is no
// valid expression.
func loadReasons(path string) (reasons, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r reasons
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for node, list := range r {
		for name, reason := range list {
			if strings.TrimSpace(reason) == "" {
				return nil, fmt.Errorf("%s: %s on %s has an empty reason", path, name, node)
			}
			if _, err := matcher(name); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return r, nil
}

// matcher returns a question for a name: whether it is exactly that, or fits the expression between
// slashes.
func matcher(name string) (func(string) bool, error) {
	if len(name) < 2 || name[0] != '/' || name[len(name)-1] != '/' {
		return func(s string) bool { return s == name }, nil
	}
	re, err := regexp.Compile(name[1 : len(name)-1])
	if err != nil {
		return nil, err
	}
	return re.MatchString, nil
}

// of returns the reason for a test on nodes of a system, or "".
// Of several reasons that fit, the first in the order of names is taken.
func (r reasons) of(node, test string) string {
	for _, name := range slices.Sorted(maps.Keys(r[node])) {
		if match, err := matcher(name); err == nil && match(test) {
			return r[node][name]
		}
	}
	return ""
}

// check finds reasons for tests that pass, and tests that fail without a reason.
func (r reasons) check(node string, have results) error {
	var errs []error
	for _, one := range have.with(passed) {
		if reason := r.of(node, one.Name); reason != "" {
			errs = append(errs, fmt.Errorf("%s passes on %s; remove its reason: %s", one.Name, node, reason))
		}
	}
	for _, one := range have.with(failed) {
		if r.of(node, one.Name) == "" {
			errs = append(errs, fmt.Errorf("%s fails on %s without a reason", one.Name, node))
		}
	}
	return errors.Join(errs...)
}

// settle takes a test that was cut off for one that failed, if there is a reason: that says why more time would change
// nothing.
func (r reasons) settle(node string, list []result) []result {
	list = slices.Clone(list)
	for i, one := range list {
		if one.State == unfinished && r.of(node, one.Name) != "" {
			list[i].State = failed
			list[i].Message = fmt.Sprintf("cut off after %.0f s", one.Seconds)
		}
	}
	return list
}

// sigOf is the special interest group that a test's name begins with.
// A test of no group is counted as "other".
func sigOf(test string) string {
	if sig, _, ok := strings.Cut(strings.TrimPrefix(test, "["), "]"); ok && strings.HasPrefix(test, "[sig-") {
		return sig
	}
	return "other"
}

// sigWindowsTests is how many tests Kubernetes 1.36.3 labels sig-windows (counted by a dry run of the suite).
const sigWindowsTests = 38

// document is docs/evidence/conformance.md: a table and the tests that do not pass, for each system that has results.
func document(all map[string]results, why reasons) string {
	var b strings.Builder
	// p prints a line.
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Conformance\n")
	p("%s", strings.Join([]string{
		"This is what Kubernetes' own tests found. `make conformance` runs them against our kubelet on a local cluster and",
		"writes this file. The tests are those of the cluster's Kubernetes version. A test that fails or is skipped has a",
		"reason, which stands in `test/conformance/reasons.json`; a reason for a test that passes is an error. The tests'",
		"images are made of free programs: see `test/conformance/README.md`. `test/conformance/results-*.json` has each test.",
	}, "\n"))

	for _, node := range slices.Sorted(maps.Keys(all)) {
		have := all[node]
		if len(have) == 0 {
			continue
		}
		name, system, kubelet := splitSet(node)
		p("\n## %s", title(node))
		if node == sigWindows {
			p(
				"`make conformance NODE=win SUITE=sig-windows` runs the tests that upstream has for Windows nodes only (test/e2e/windows).")
			p("%d of the %d have run so far.", len(have), sigWindowsTests)
		}
		if about := suites[name].about; about != "" {
			p("`make conformance NODE=%s SUITE=%s%s` %s", system, name,
				map[string]string{upstreams: " KUBELET=upstream"}[kubelet], about)
			p("%d have run so far.", len(have))
		}
		for _, one := range suites[name].out {
			p("Left out: `%s`: %s.", one.pattern, one.why)
		}
		// Only sets of our kubelet have reasons; those of upstream's are compared with.
		table(p, have)
		if kubelet == ours {
			rest(p, node, have, why)
			beside(p, have, all[setName(name, system, upstreams)])
		}
	}
	return b.String()
}

// beside lists the tests that come out otherwise with upstream's kubelet.
func beside(p func(string, ...any), have, upstream results) {
	if len(upstream) == 0 {
		return
	}
	both, list := 0, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if there, ran := upstream[name]; ran {
			both++
			if there.State != have[name].State {
				list = append(list, fmt.Sprintf("| %s | %s | %s |", cell(name), have[name].State, there.State))
			}
		}
	}
	p("\nOf %d tests that ran with upstream's kubelet too, %d came out otherwise.", both, len(list))
	if len(list) > 0 {
		p("\n| test | ours | upstream's |\n|---|---|---|\n%s", strings.Join(list, "\n"))
	}
}

// table prints the results by special interest group, the first part of a test's name.
func table(p func(string, ...any), have results) {
	type count struct{ passed, row, failed, skipped int }
	sigs := map[string]*count{}
	total := &count{}

	// "9" is later than every date that a run can have.
	first, last := "9", ""
	for _, one := range have {
		sig := sigOf(one.Name)
		if sigs[sig] == nil {
			sigs[sig] = &count{}
		}
		for _, c := range []*count{sigs[sig], total} {
			switch one.State {
			case passed:
				c.passed++
				if one.Row >= enough {
					c.row++
				}
			case failed:
				c.failed++
			// What is neither passed nor failed was skipped.
			default:
				c.skipped++
			}
		}
		first = min(first, one.When)
		last = max(last, one.When)
	}

	p("The table counts the last run of each test. These runs were between %s and %s.\n", first, last)
	p("| group | passed | of these %d times in a row | failed | skipped |\n|---|---|---|---|---|", enough)
	for _, sig := range slices.Sorted(maps.Keys(sigs)) {
		c := sigs[sig]
		p("| %s | %d | %d | %d | %d |", sig, c.passed, c.row, c.failed, c.skipped)
	}

	p("| all | %d | %d | %d | %d |", total.passed, total.row, total.failed, total.skipped)
}

// rest lists what does not pass, with the reason of ours or the suite's own. Of tests with one reason the first is
// named: all are in the file of results.
func rest(p func(string, ...any), node string, have results, why reasons) {
	for _, state := range []string{failed, skipped} {
		list := have.with(state)
		if len(list) == 0 {
			continue
		}
		// A large suite skips hundreds of tests, for few reasons.
		if name, _, _ := splitSet(node); state == skipped && suites[name].peer {
			grouped(p, node, list, why)
			continue
		}

		names := map[string][]string{} // by reason
		for _, one := range list {
			reason := why.of(node, one.Name)
			if reason == "" && state == skipped {
				reason = firstLine(one.Message)
			}
			if reason == "" {
				reason = "not yet known: " + firstLine(one.Message)
			}
			names[reason] = append(names[reason], one.Name)
		}
		p("\n| %s | reason |\n|---|---|", state)
		// Reasons are in the order of their first tests.
		byName := func(a, b string) int { return strings.Compare(names[a][0], names[b][0]) }
		for _, reason := range slices.SortedFunc(maps.Keys(names), byName) {
			what := names[reason][0]
			if others := len(names[reason]) - 1; others > 0 {
				what += fmt.Sprintf(", and %d more", others)
			}
			p("| %s | %s |", cell(what), cell(reason))
		}
	}
}

// grouped counts the tests that a large suite skips itself, by what it says of them.
func grouped(p func(string, ...any), node string, list []result, why reasons) {
	counts := map[string]int{}
	for _, one := range list {
		reason := why.of(node, one.Name)
		if reason == "" {
			reason = firstLine(one.Message)
		}
		counts[reason]++
	}
	p("\n| skipped by the suite | reason |\n|---|---|")
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		p("| %d | %s |", counts[reason], cell(reason))
	}
}

// firstLine cuts a message to one line of at most 160 bytes.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 160 {
		line = line[:160] + "…"
	}
	return line
}

// cell is a text that does not end a cell of a Markdown table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
