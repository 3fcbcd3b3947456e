package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// expr says what busybox's says, and ends as it does.
func TestExpr(t *testing.T) {
	for _, c := range []struct{ args, out, err string }{
		{"5 % 2", "1\n", ""}, {"4 % 2", "0\n", "exit status 1"}, {"2 + 3", "5\n", ""}, {"1 / 0", "", "division by zero"},
		{"1 : 2", "", "operator : is not known here"}, {"x + 2", "", `strconv.Atoi: parsing "x": invalid syntax`},
	} {
		var out bytes.Buffer
		err := expr(context.Background(), interp.HandlerContext{Stdout: &out}, strings.Fields(c.args))
		said := ""
		if err != nil {
			said = err.Error()
		}
		if out.String() != c.out || said != c.err {
			t.Errorf("expr %s: %q and %q, want %q and %q", c.args, out.String(), said, c.out, c.err)
		}
	}
}

// A file is moved under its own name into a folder, and over another file.
func TestMove(t *testing.T) {
	dir, err := os.MkdirTemp("", "move")
	if err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(dir, "into")
	defer func() { // os.RemoveAll fails under Wine 8.0
		for _, name := range []string{filepath.Join(into, "a"), into, filepath.Join(dir, "b"), dir} {
			os.Remove(name)
		}
	}()
	if err := os.Mkdir(into, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := interp.HandlerContext{Dir: dir}
	if err := move(context.Background(), c, []string{"-v", "a", "into"}); err != nil {
		t.Fatal(err)
	}
	if err := move(context.Background(), c, []string{"-v", filepath.Join(into, "a"), "b"}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(data) != "1" {
		t.Errorf("the file at its end: %q, %v", data, err)
	}
	if err := move(context.Background(), c, []string{"-v", "absent", "into"}); err == nil {
		t.Error("an absent file was moved")
	}
}

// What is appended later is printed, until the program is told to stop; /dev/null never has anything.
func TestFollow(t *testing.T) {
	f, err := os.CreateTemp("", "follow")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString("one\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	wrote := &appending{f: f, cancel: cancel}
	if err := tail(ctx, interp.HandlerContext{Stdout: wrote}, []string{"-n", "1", "-f", f.Name()}); err == nil || wrote.printed.String() != "two\nthree\n" {
		t.Errorf("printed %q and ended with %v", wrote.printed.String(), err)
	}
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var none bytes.Buffer
	if err := tail(soon, interp.HandlerContext{Stdout: &none}, []string{"-f", "/dev/null"}); err == nil || soon.Err() == nil || none.Len() > 0 {
		t.Errorf("tail of nothing printed %q and ended with %v", none.String(), err)
	}
}

// appending has the file grow once something was printed, and ends everything when that was printed too.
type appending struct {
	printed bytes.Buffer
	f       *os.File
	cancel  func()
}

func (a *appending) Write(p []byte) (int, error) {
	n, err := a.printed.Write(p)
	if strings.HasSuffix(a.printed.String(), "three\n") {
		a.cancel()
	} else if _, err := a.f.WriteString("three\n"); err != nil {
		return n, err
	}
	return n, err
}
