// Command testsummary reads `go test -json` and prints one line per package, everything that a failed test printed, and
// a summary. It exits with 1 if anything failed or nothing ran.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json` (see `go doc test2json`), build output included.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

type test struct{ pkg, name string }

// summary collects the results of a run.
type summary struct {
	out     io.Writer
	output  map[test]*strings.Builder
	built   map[string]*strings.Builder // what the compiler said, by import path
	passed  int
	skipped []test
	failed  []test
	said    map[test][]string // lines of failed tests that name a place in the code, for the summary
	slow    []timed
	broken  []string // packages that failed without a failed test: build errors, panics, time-outs
}

type timed struct {
	test    test
	elapsed time.Duration
}

func main() {
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	if !s.finish() {
		os.Exit(1)
	}
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[test]*strings.Builder{}, built: map[string]*strings.Builder{},
		said: map[test][]string{}}
}

// read takes in the output of "go test -json". A line that is no event, such as one of the go command itself, is
// printed as it is.
func (s *summary) read(in io.Reader) error {
	lines := bufio.NewReader(in)

	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(s.out, "%s", line)
			} else {
				s.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading test events: %w", err)
		}
	}
}

// add takes in one event. Output is kept until its test or package has ended, because only that of failed ones is
// printed.
func (s *summary) add(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		appendTo(s.built, e.ImportPath, e.Output)
	case "output":
		appendTo(s.output, key, e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			s.endPackage(e)
			return
		}
		s.endTest(e.Action, key, time.Duration(e.Elapsed*float64(time.Second)))
	}
}

func appendTo[K comparable](m map[K]*strings.Builder, key K, text string) {
	if m[key] == nil {
		m[key] = &strings.Builder{}
	}
	m[key].WriteString(text)
}

func (s *summary) endTest(action string, key test, took time.Duration) {
	switch action {
	case "pass":
		s.passed++
		delete(s.output, key)
	case "skip":
		s.skipped = append(s.skipped, key)
	case "fail":
		s.failed = append(s.failed, key)
		s.said[key] = s.places(key)
	}
	if !strings.Contains(key.name, "/") {
		s.slow = append(s.slow, timed{key, took})
	}
}

// endPackage prints the result of a package and, if it failed, the output of its failed tests. A package that failed
// without a failed test did not build, panicked, or ran out of time: then all its output is printed.
func (s *summary) endPackage(e event) {
	mark := map[string]string{"pass": "ok  ", "skip": "-   ", "fail": "FAIL"}[e.Action]
	if e.Action != "skip" {
		fmt.Fprintf(s.out, "%s %-52s %6.1fs\n", mark, short(e.Package), e.Elapsed)
	}
	if e.Action != "fail" {
		return
	}

	any := false
	for _, t := range s.failed {
		if t.pkg == e.Package {
			any = true
			s.print(t)
		}
	}

	if !any {
		s.broken = append(s.broken, e.Package)
		s.print(test{e.Package, ""})
		s.printUnfinished(e.Package)
		for path, text := range s.built {
			if strings.HasPrefix(path, e.Package) {
				indent(s.out, text.String())
			}
		}
	}
}

func (s *summary) print(t test) {
	if text := s.output[t]; text != nil {
		indent(s.out, text.String())
		delete(s.output, t)
	}
}

// unfinishedLines is how many lines are shown of a test without a result: enough for the message of a panic or a
// time-out and for the first goroutines.
const unfinishedLines = 80

// printUnfinished prints the output of a package's tests that have no result, from the panic on if there is one.
func (s *summary) printUnfinished(pkg string) {
	for _, t := range slices.SortedFunc(maps.Keys(s.output),
		func(a, b test) int { return cmp.Compare(a.name, b.name) }) {
		if t.pkg != pkg || slices.Contains(s.skipped, t) {
			continue
		}
		text := s.output[t].String()
		if at := strings.Index(text, "panic: "); at > 0 {
			text = text[at:]
		}
		lines := strings.SplitAfterN(text, "\n", unfinishedLines+1)
		indent(s.out, t.name+":\n"+strings.Join(lines[:min(len(lines), unfinishedLines)], ""))
		delete(s.output, t)
	}
}

func indent(out io.Writer, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprint(out, "     ", line)
	}
}

func short(pkg string) string { return strings.TrimPrefix(pkg, "porthole.dev/porthole/") }

// slowest is how many of the tests that took longest are printed.
const slowest = 10

// finish prints the summary and reports whether all is well.
func (s *summary) finish() bool {
	slices.SortFunc(s.slow, func(a, b timed) int { return cmp.Compare(b.elapsed, a.elapsed) })
	fmt.Fprintln(s.out)
	for _, t := range s.slow[:min(slowest, len(s.slow))] {
		if t.elapsed >= time.Second {
			fmt.Fprintf(s.out, "slow     %6.1fs  %s %s\n", t.elapsed.Seconds(), short(t.test.pkg), t.test.name)
		}
	}

	for _, t := range s.skipped {
		fmt.Fprintf(s.out, "skipped  %s %s: %s\n", short(t.pkg), t.name, s.reason(t))
	}
	for _, t := range s.failed {
		fmt.Fprintf(s.out, "FAILED   %s %s\n", short(t.pkg), t.name)
		for _, line := range s.said[t] {
			fmt.Fprintln(s.out, "        ", line)
		}
	}

	for _, p := range s.broken {
		fmt.Fprintf(s.out, "FAILED   %s (the package did not build or did not end)\n", short(p))
	}
	fmt.Fprintf(s.out, "tests: %d passed, %d failed, %d skipped, %d packages broken\n", s.passed, len(s.failed),
		len(s.skipped), len(s.broken))
	return len(s.failed) == 0 && len(s.broken) == 0 && s.passed > 0
}

// place is the beginning of what a test prints with t.Error or t.Log.
var place = regexp.MustCompile(`^\w+\.go:\d+: `)

// Who reads the end of a long log sees this many lines of each failed test, and this much of each line.
const (
	placeLines = 6
	placeChars = 400
)

// places returns the first lines of a test's output that name a place in the code. What is wrong is among them: a test
// that prints logs of programs does it at its end.
func (s *summary) places(t test) (lines []string) {
	if s.output[t] == nil {
		return nil
	}
	for line := range strings.Lines(s.output[t].String()) {
		if line = strings.TrimSpace(line); place.MatchString(line) && len(lines) < placeLines {
			lines = append(lines, line[:min(len(line), placeChars)])
		}
	}
	return lines
}

// reason returns the last line that a skipped test printed.
func (s *summary) reason(t test) string {
	if s.output[t] == nil {
		return "no reason given"
	}
	last := "no reason given"
	for line := range strings.Lines(s.output[t].String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			last = line
		}
	}
	return last
}
