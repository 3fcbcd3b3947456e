package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writer is a runtime that writes one log. It opens the file for each write, because on Windows a file that a Go
// program has open cannot be renamed.
type writer struct {
	path string
	fail error
}

func (w *writer) reopen(context.Context, string) error {
	if w.fail != nil {
		return w.fail
	}
	return os.WriteFile(w.path, nil, 0o640)
}

func (w *writer) write(t *testing.T, text string) {
	t.Helper()
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func world(t *testing.T, size int64, files int) (*writer, *Rotator, *time.Time) {
	t.Helper()
	dir, err := os.MkdirTemp("", "logs-test-")
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{path: filepath.Join(dir, "0.log")}
	t.Cleanup(func() {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})

	if err := w.reopen(context.Background(), ""); err != nil {
		t.Fatal(err)
	}

	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r, err := New(Options{MaxBytes: size, MaxFiles: files, Reopen: w.reopen, Now: func() time.Time { return now },
		Running: func() []Container { return []Container{{ID: "c", Path: w.path}, {ID: "not started"}} }})
	if err != nil {
		t.Fatal(err)
	}
	return w, r, &now
}

func names(t *testing.T, w *writer) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(w.path))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return string(data)
}

func TestRotation(t *testing.T) {
	w, r, now := world(t, 100, 4)
	ctx := context.Background()
	w.write(t, strings.Repeat("x", 99))
	r.Pass(ctx)
	if got := names(t, w); !slices.Equal(got, []string{"0.log"}) {
		t.Fatalf("99 bytes were rotated: %v", got)
	}
	for i := range 6 {
		w.write(t, fmt.Sprintf("round %d %s", i, strings.Repeat("x", 100)))
		r.Pass(ctx)
		*now = now.Add(time.Second)
	}

	want := []string{"0.log", "0.log.20260102-030408.gz", "0.log.20260102-030409.gz", "0.log.20260102-030410"}
	if got := names(t, w); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}

	for i, name := range want[1:] {
		path := filepath.Join(filepath.Dir(w.path), name)
		if text := content(t, path); !strings.HasPrefix(text, fmt.Sprintf("round %d ", i+3)) {
			t.Errorf("%s holds %.10q", name, text)
		}
		info, err := os.Stat(path)
		if err != nil || filepath.Separator == '/' && info.Mode().Perm() != 0o640 {
			t.Errorf("%s has mode %v: %v", name, info.Mode(), err)
		}
	}

	if content(t, w.path) != "" {
		t.Error("the new file is not empty")
	}
	if err := Remove(w.path); err != nil || len(names(t, w)) != 0 {
		t.Errorf("removed, but there are %v: %v", names(t, w), err)
	}
}

func TestNothingIsLostWhenTheRuntimeDoesNotReopen(t *testing.T) {
	w, r, _ := world(t, 10, 3)
	w.write(t, "much too long a text")
	w.fail = errors.New("refused")
	r.Pass(context.Background())
	w.write(t, ", and on")
	if got := content(t, w.path); got != "much too long a text, and on" || len(names(t, w)) != 1 {
		t.Errorf("%q in %v", got, names(t, w))
	}
}

func TestAnInterruptedRotationIsFinished(t *testing.T) {
	w, r, _ := world(t, 10, 5)
	ctx := context.Background()
	old := w.path + ".20260101-000000"
	// killed after the compression, and within one
	for _, p := range []string{old, old + ".gz", w.path + ".20251231-000000.tmp"} {
		if err := os.WriteFile(p, []byte("old"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(w.path, w.path+".20260102-000000"); err != nil { // and before the runtime was told
		t.Fatal(err)
	}
	r.Pass(ctx)
	w.write(t, "after the restart, long")
	r.Pass(ctx)
	want := []string{"0.log", "0.log.20260101-000000.gz", "0.log.20260102-000000.gz", "0.log.20260102-030405"}
	if got := names(t, w); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := content(t, w.path+".20260102-030405"); got != "after the restart, long" {
		t.Errorf("%q", got)
	}
}

func TestLinksAreLeftAlone(t *testing.T) {
	w, r, _ := world(t, 10, 3)
	w.write(t, "much too long a text")
	real := w.path + "-real"
	if err := os.Rename(w.path, real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, w.path); err != nil {
		t.Skip("no links here:", err)
	}
	r.Pass(context.Background())
	if got := content(t, real); got != "much too long a text" || len(names(t, w)) != 2 {
		t.Errorf("%q in %v", got, names(t, w))
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{MaxFiles: 1}); err == nil {
		t.Error("one file accepted")
	}
	r, err := New(Options{MaxFiles: 2, MaxBytes: -1, Running: func() []Container { panic("asked") }})
	if err != nil {
		t.Fatal(err)
	}
	r.Run(context.Background()) // returns: a negative size switches rotation off
}

// planted makes a folder of a pod's logs in which a container has put something at one element of the path of its log.
// It returns the log's path.
func planted(t *testing.T, at, target string) string {
	t.Helper()
	root := t.TempDir()
	log := filepath.Join(root, "pod", "app", "0.log")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, bytes.Repeat([]byte("x"), 100), 0o640); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, filepath.FromSlash(at))
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no links here:", err)
	}
	return log
}

// victim makes a folder of the node that looks like that of a log, with an old one. It returns the folder of a pod's
// logs.
func victim(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pod")
	if err := os.MkdirAll(filepath.Join(dir, "app"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.log", "0.log.20260101-000000", "0.log.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, "app", name), bytes.Repeat([]byte("s"), 100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// unharmed checks that a folder of victim is as it was made.
func unharmed(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "app"))
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder of the node has %v, %v", entries, err)
	}
	for _, e := range entries {
		if text := content(t, filepath.Join(dir, "app", e.Name())); text != strings.Repeat("s", 100) {
			t.Errorf("%s of the node has %.10q", e.Name(), text)
		}
	}
}

// TestPlantedLinks: a container that has its folder of logs mounted puts links in it. Nothing of the node is read,
// compressed, renamed or removed, and a file that the compression would write to is not written through a link.
func TestPlantedLinks(t *testing.T) {
	for _, at := range []string{"pod", "pod/app", "pod/app/0.log", "pod/app/0.log.20260101-000000",
		"pod/app/0.log.20260101-000000.tmp", "pod/app/0.log.20260101-000000.gz"} {
		t.Run(at, func(t *testing.T) {
			node := victim(t)
			targets := map[string]string{"pod": node, "pod/app": filepath.Join(node, "app")}
			target := targets[at]
			if target == "" {
				target = filepath.Join(node, "app", "0.log")
			}
			log := planted(t, at, target)
			if strings.HasSuffix(at, ".tmp") || strings.HasSuffix(at, ".gz") {
				if err := os.WriteFile(log+".20260101-000000", []byte("old"), 0o640); err != nil {
					t.Fatal(err)
				}
			}

			r, err := New(Options{MaxBytes: 10, MaxFiles: 5,
				Reopen:  func(context.Context, string) error { return os.WriteFile(log, nil, 0o640) },
				Running: func() []Container { return []Container{{ID: "c", Path: log}} }})
			if err != nil {
				t.Fatal(err)
			}
			r.Pass(t.Context())
			unharmed(t, node)

			if f, err := Open(log); err == nil {
				if text, _ := io.ReadAll(f); strings.Contains(string(text), "s") {
					t.Errorf("read %.10q", text)
				}
				f.Close()
			}
			_ = Remove(log)
			unharmed(t, node)
		})
	}
}

// TestSparseFile: a container that has mounted its folder of logs puts a huge file there, with the name of a rotated
// log. It delays neither the rotation of this log nor that of others, and is removed when it is the oldest.
func TestSparseFile(t *testing.T) {
	w, r, now := world(t, 100, 3)
	sparse := w.path + ".20251231-235959"
	if err := errors.Join(os.WriteFile(sparse, nil, 0o640), os.Truncate(sparse, 8<<40)); err != nil {
		t.Skip("no sparse files here:", err)
	}
	for i := range 2 {
		w.write(t, strings.Repeat("x", 100))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		r.Pass(ctx)
		if ctx.Err() != nil {
			t.Fatal("a pass takes longer than 5 s")
		}
		cancel()
		*now = now.Add(time.Second)
		if _, err := os.Stat(sparse); (err == nil) != (i == 0) {
			t.Errorf("after pass %d: %v", i, err)
		}
	}
	want := []string{"0.log", "0.log.20260102-030405.gz", "0.log.20260102-030406"}
	if !slices.Equal(names(t, w), want) {
		t.Errorf("%v", names(t, w))
	}
}

// TestCompressionEnds: when its context ends, a compression stops, and the log stays as it was.
func TestCompressionEnds(t *testing.T) {
	w, r, _ := world(t, 1<<40, 3)
	old := w.path + ".20251231-235959"
	if err := errors.Join(os.WriteFile(old, nil, 0o640), os.Truncate(old, 1<<40),
		os.Truncate(w.path, 1<<40)); err != nil {
		t.Skip("no sparse files here:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	r.Pass(ctx)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
	if got := names(t, w); !slices.Equal(got, []string{"0.log", filepath.Base(old)}) {
		t.Errorf("%v", got)
	}
}
