package factlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/kubelet/pod"
)

func openLog(t *testing.T, dir string, limits Limits) *Log {
	t.Helper()
	l, err := Open(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// TestPod: facts and plans become lines of one file, which can be played again; other users cannot read it.
func TestPod(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "facts")
	l := openLog(t, dir, DefaultLimits)
	p := l.Pod("u")
	p.Fact(pod.SourcesReady{}, time.Now())
	plan := pod.Plan{}
	p.Plan(pod.Node{}, &plan, time.Now())
	p.Close()
	p.Fact(pod.SourcesReady{}, time.Now()) // nothing is added after the end

	text, err := os.ReadFile(filepath.Join(dir, "u.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := pod.Replay(bytes.NewReader(text)); err != nil || len(steps) != 1 ||
		bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("%d plans, %v, of\n%s", len(steps), err, text)
	}

	again := openLog(t, dir, DefaultLimits).Pod("u") // the next kubelet begins again
	again.Fact(pod.SourcesReady{}, time.Now())
	again.Close()
	if next, err := os.ReadFile(filepath.Join(dir, "u.jsonl")); err != nil || bytes.Count(next, []byte("\n")) != 1 {
		t.Errorf("after a restart: %v\n%s", err, next)
	}
}

// TestOff: without a log nothing is recorded, and a UID cannot name a file elsewhere.
func TestOff(t *testing.T) {
	var off *Log
	p := off.Pod("u")
	p.Fact(pod.SourcesReady{}, time.Now())
	p.Plan(pod.Node{}, &pod.Plan{}, time.Now())
	p.Close()

	dir := t.TempDir()
	if p := openLog(t, dir, DefaultLimits).Pod("../u"); p != nil || names(t, dir) != "" {
		t.Errorf("a file for the UID ../u: %+v, %s", p, names(t, dir))
	}
}

// TestFull: a file that is full loses its older half, and says how many entries it has lost in all.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	p := openLog(t, dir, Limits{Pod: 2000, Total: 1 << 20}).Pod("u")
	for n := range 100 {
		p.Fact(pod.Removed{ID: fmt.Sprint("container-", n)}, time.Now())
	}
	p.Close()

	text, err := os.ReadFile(filepath.Join(dir, "u.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	want := fmt.Sprintf(`"type":"dropped","count":%d}`, 100-(len(lines)-1))
	if len(text) > 2000 || !bytes.HasSuffix(lines[0], []byte(want)) ||
		!bytes.Contains(lines[len(lines)-1], []byte("container-99")) {
		t.Errorf("%d bytes in %d lines, want the first to end with %s:\n%s", len(text), len(lines), want, text)
	}
	if _, err := pod.Replay(bytes.NewReader(text)); err == nil {
		t.Error("a log without its beginning is played")
	}
}

// TestTotal: when all files together are too large, the least recently written one is removed.
func TestTotal(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, Limits{Pod: 1 << 20, Total: 1000})
	add := func(p *Pod) {
		for range 5 {
			p.Fact(pod.Removed{ID: "container"}, time.Now())
		}
	}

	first, second := l.Pod("a"), l.Pod("b")
	add(first)
	add(second)
	if got := names(t, dir); got != "a.jsonl b.jsonl" {
		t.Fatalf("small enough: %s", got)
	}

	first.Fact(pod.SourcesReady{}, time.Now())
	add(l.Pod("c"))
	if got := names(t, dir); got != "a.jsonl c.jsonl" {
		t.Errorf("too large: %s", got)
	}

	add(second) // its actor goes on
	if got := names(t, dir); got != "a.jsonl c.jsonl" {
		t.Errorf("a removed file came back: %s", got)
	}
}
