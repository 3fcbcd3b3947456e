package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/logs"
)

const sample = "2026-01-02T03:04:05.000000001Z stdout F one\n" +
	"2026-01-02T03:04:06Z stderr P tw\n" +
	"2026-01-02T03:04:06Z stderr F o\n" +
	"not a log line\n" +
	"2026-01-02T03:04:07Z stdout F three\n" +
	"2026-01-02T03:04:08Z stdout F \n"

func writeLog(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(tempDir(t), "0.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadLog(t *testing.T) {
	path := writeLog(t, sample)
	for _, c := range []struct{ query, want string }{
		{"", "one\ntwo\nthree\n\n"},
		{"tailLines=0", ""},
		{"tailLines=1", "\n"},
		{"tailLines=2", "three\n\n"},
		{"tailLines=100", "one\ntwo\nthree\n\n"},
		{"limitBytes=5", "one\nt"},
		{"limitBytes=4", "one\n"},
		{"sinceTime=2026-01-02T03:04:07Z", "three\n\n"},
		{"timestamps=true&tailLines=2", "2026-01-02T03:04:07.000000000Z three\n2026-01-02T03:04:08.000000000Z \n"},
		{"timestamps&sinceTime=2026-01-02T03:04:06Z&limitBytes=35", "2026-01-02T03:04:06.000000000Z two\n"},
		{"tail=1&tailLines=3", "\n"},
		{"tail=all&tailLines=1", "one\ntwo\nthree\n\n"},
		{"stream=Stderr", "two\n"},
	} {
		values, _ := url.ParseQuery(c.query)
		q, err := parseLogQuery(values, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := readLog(context.Background(), path, q, nil, &out); err != nil || out.String() != c.want {
			t.Errorf("%s: %q %v, want %q", c.query, out.String(), err, c.want)
		}
	}

	for bad, want := range map[string]error{"tailLines=-1": errInvalid, "tailLines=x": errDecode,
		"limitBytes=0": errInvalid, "sinceSeconds=0": errInvalid,
		"sinceTime=yesterday": errDecode, "sinceSeconds=1&sinceTime=2026-01-02T03:04:07Z": errInvalid,
		"stream=x": errInvalid, "stream=Stdout&tailLines=1": errInvalid,
		"limitBytes=99999999999999999999": errDecode} {
		values, _ := url.ParseQuery(bad)
		if _, err := parseLogQuery(values, time.Now()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", bad, err, want)
		}
	}
}

// TestCarriageReturns: programs on Windows end lines with CR and LF. The log has one line for each, and the CR stays
// in it, as with upstream's kubelet.
func TestCarriageReturns(t *testing.T) {
	path := writeLog(t,
		"2026-01-02T03:04:05Z stdout F one\r\n2026-01-02T03:04:06Z stdout F \r\n2026-01-02T03:04:07Z stderr P tw\r\n2026-01-02T03:04:07Z stderr F o\r\n")
	for tail, want := range map[int64]string{3: "\r\ntw\ro\r\n", 100: "one\r\n\r\ntw\ro\r\n"} {
		var out bytes.Buffer
		if err := readLog(t.Context(), path, logQuery{tail: &tail}, nil, &out); err != nil || out.String() != want {
			t.Errorf("the last %d: %q %v, want %q", tail, out.String(), err, want)
		}
	}
}

// TestLogsByteForByte compares with the output of Kubernetes' own reader of container logs (k8s.io/cri-client v0.36.3,
// pkg/logs) for random logs and options.
func TestLogsByteForByte(t *testing.T) {
	text, err := os.ReadFile("testdata/logs.jsonl")
	if err != nil {
		t.Fatal(err)
	}

	cases := 0
	for dec := json.NewDecoder(bytes.NewReader(text)); dec.More(); cases++ {
		var c struct {
			Log, Query string
			Want       []byte
		}
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}

		values, err := url.ParseQuery(c.Query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := parseLogQuery(values, time.Now())
		if err != nil {
			t.Fatalf("%s: %v", c.Query, err)
		}
		var out bytes.Buffer
		if err := readLog(context.Background(), writeLog(t, c.Log), q, nil, &out); err != nil ||
			!bytes.Equal(out.Bytes(), c.Want) {
			t.Errorf("%q with %s:\n%q %v, want\n%q", c.Log, c.Query, out.String(), err, c.Want)
		}
	}

	if cases < 300 {
		t.Errorf("only %d cases", cases)
	}
}

// shared is a buffer that is safe for concurrent use.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestFollowThroughRotationUntilTheEnd(t *testing.T) {
	path := writeLog(t, "2026-01-02T03:04:05Z stdout F 0\n")
	var running atomic.Bool
	running.Store(true)
	out, done := &shared{}, make(chan error, 1)
	go func() { done <- readLog(context.Background(), path, logQuery{follow: true}, running.Load, out) }()

	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}

	want := func(text string) {
		t.Helper()
		wait.NoError(t, 5*time.Second, "the log", func() error {
			if got := out.String(); got != text {
				return fmt.Errorf("have %q, want %q", got, text)
			}
			return nil
		})
	}

	want("0\n")
	add("2026-01-02T03:04:05Z stdout F ")
	add("half\n")
	want("0\nhalf\n")

	add("2026-01-02T03:04:05Z stdout F last of old\n")
	if err := os.Rename(path, path+".1"); err != nil { // must be allowed while it is open
		t.Fatal(err)
	}
	add("2026-01-02T03:04:06Z stdout F new\n")
	want("0\nhalf\nlast of old\nnew\n")
	add("2026-01-02T03:04:06Z stdout F end\n")

	running.Store(false)
	select {
	case err := <-done:
		if err != nil || !strings.HasSuffix(out.String(), "end\n") {
			t.Errorf("%q %v", out.String(), err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("does not stop although the container ended")
	}
}

// TestFollowRarelyOpensFiles: a virus scanner looks at each opening, so that a follower whose container writes
// nothing, or ten times each second, opens the log once a second at most, and reads a quiet log two or three times
// each second.
func TestFollowRarelyOpensFiles(t *testing.T) {
	const minute = time.Minute
	for name, c := range map[string]struct {
		lines     int // per second
		mostReads int
	}{"quiet": {0, 3 * 60}, "busy": {10, 20 * 60}} {
		path := writeLog(t, "2026-01-02T03:04:05Z stdout F 0\n")
		log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}

		now, written, opened, reads := time.Duration(0), 0, 0, 0
		files := logFiles{
			open:  func(path string) (*os.File, error) { opened++; return logs.Open(path) },
			moved: func(f *os.File, path string) bool { opened++; return moved(f, path) },
			wait: func(_ context.Context, d time.Duration) bool {
				reads++
				for now += d; c.lines > 0 &&
					time.Duration(written)*time.Second/time.Duration(c.lines) < now; written++ {
					fmt.Fprintln(log, "2026-01-02T03:04:05Z stdout F 1")
				}
				return true
			}}
		var out bytes.Buffer
		if err := files.read(context.Background(), path, logQuery{follow: true}, func() bool { return now < minute },
			&out); err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}

		if lines := strings.Count(out.String(), "\n"); lines != 1+written {
			t.Errorf("%s: %d lines arrived, want %d", name, lines, 1+written)
		}
		// the beginning, the end, and one more for the wait at the end
		if most := 60 + 3; opened > most || reads > c.mostReads {
			t.Errorf("%s: the log is opened %d times in a minute, want %d at most; read %d times, want %d at most",
				name, opened, most, reads, c.mostReads)
		}
	}
}

func TestTailOfLongLog(t *testing.T) {
	var text strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&text, "2026-01-02T03:04:05Z stdout F line %d\n", i)
	}
	n := int64(3000)
	var out bytes.Buffer
	if err := readLog(context.Background(), writeLog(t, text.String()), logQuery{tail: &n}, nil, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 3001 || lines[0] != "line 17000" {
		t.Errorf("%d lines from %q", len(lines), lines[0])
	}
}

// TestSparseLogEnds: the log of a container that has made it huge without writing is read as long as its client is
// there, and no longer.
func TestSparseLogEnds(t *testing.T) {
	path, few := writeLog(t, sample), int64(1000)
	if err := os.Truncate(path, 8<<40); err != nil {
		t.Skip("no sparse files here:", err)
	}
	for name, q := range map[string]logQuery{"all": {}, "tail": {tail: &few}, "follow": {follow: true}} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- readLog(ctx, path, q, func() bool { return true }, io.Discard) }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: reading goes on after the client has gone", name)
		}
		cancel()
	}
}

func FuzzParseLog(f *testing.F) {
	for _, line := range strings.Split(sample, "\n") {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := parseLog(line)
		if err == nil && !bytes.HasSuffix(line, l.text) {
			t.Fatalf("%q gives text %q", line, l.text)
		}
	})
}

// tempDir is t.TempDir for flat folders without os.RemoveAll, which Wine 8 cannot carry out ("Invalid function").
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "serve-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err := os.Remove(dir); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return dir
}
