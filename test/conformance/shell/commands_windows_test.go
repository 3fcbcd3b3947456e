package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/moreinterp/coreutils"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// expr says what busybox's says, and ends as it does.
func TestExpr(t *testing.T) {
	for _, c := range []struct{ args, out, err string }{
		{"5 % 2", "1\n", ""}, {"4 % 2", "0\n", "exit status 1"}, {"2 + 3", "5\n", ""},
		{"1 / 0", "", "division by zero"},
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
		for _, name := range []string{filepath.Join(into, "a"), filepath.Join(into, "b"), into, filepath.Join(dir, "b"),
			dir} {
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
	served, err := os.Open(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { served.Close() })
	if err := move(context.Background(), c, []string{"-v", "b", "into"}); err != nil {
		t.Errorf("a file that is open for a moment: %v", err)
	}
	if err := move(context.Background(), c, []string{"-v", "absent", "into"}); err == nil {
		t.Error("an absent file was moved")
	}
}

// awk prints the word that is asked for, and nothing of a line that has too few.
func TestAwk(t *testing.T) {
	for program, want := range map[string]string{"{print $1}": "3\n\n", "{ print $2 }": "file\n\n",
		"{print $0}": " 3  file\n\n"} {
		var out bytes.Buffer
		err := awk(context.Background(), interp.HandlerContext{Stdin: strings.NewReader(" 3  file\n\n"), Stdout: &out},
			[]string{program})
		if out.String() != want || err != nil {
			t.Errorf("awk %s: %q, %v; want %q", program, out.String(), err, want)
		}
	}
	if err := awk(context.Background(), interp.HandlerContext{}, []string{"{print NR}"}); err == nil {
		t.Error("another program is taken")
	}
}

// ls -d names folders by whole paths with slashes, also those that the shell found by a pattern.
func TestListNames(t *testing.T) {
	dir, err := os.MkdirTemp("", "list")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(inner)

	slashed := filepath.ToSlash(dir)
	rooted := strings.TrimPrefix(slashed, "C:")
	for line, want := range map[string]string{
		"ls -d " + rooted + "/*":                                  rooted + "/inner\n",
		"ls -d " + slashed + "/*":                                 slashed + "/inner\n",
		"ls -d " + slashed + "/* " + slashed + "/none || echo $?": slashed + "/inner\n1\n",
		"cd " + slashed + " && ls -d inner":                       "inner\n",
	} {
		file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
		if err != nil {
			t.Fatal(err)
		}
		keepPatterns(file)
		var out bytes.Buffer
		r, err := interp.New(interp.StdIO(nil, &out, io.Discard), interp.ExecHandlers(own, coreutils.ExecHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(context.Background(), file); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v; want %q", line, out.String(), err, want)
		}
	}
}

// hexdump prints bytes as they are, and how many there were.
func TestHexdump(t *testing.T) {
	var out bytes.Buffer
	c := interp.HandlerContext{Stdin: strings.NewReader("\xde\xca\xfe A"), Stdout: &out}
	if err := hexdump(context.Background(), c, []string{"-C"}); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(strings.Fields(out.String()),
		" "), "00000000 de ca fe 20 41 |... A| 00000005"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := hexdump(context.Background(), c, []string{"-x"}); err == nil {
		t.Error("another format is taken")
	}
}

// wget prints what it fetches, and posts what it is told to.
func TestWget(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/absent" {
			http.NotFound(w, r)
			return
		}
		data, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q %v", r.Method, data, err)
	}))
	defer server.Close()
	for _, c := range []struct{ option, path, want string }{
		{"-q", "/", `GET "" <nil>`},
		{`--post-data={"Source": "prestop"}`, "/write", `POST "{\"Source\": \"prestop\"}" <nil>`},
	} {
		var out bytes.Buffer
		err := wget(context.Background(), interp.HandlerContext{Stdout: &out},
			[]string{"-O-", c.option, server.URL + c.path})
		if out.String() != c.want || err != nil {
			t.Errorf("wget %s: %s, %v", c.option, out.String(), err)
		}
	}
	if err := wget(context.Background(), interp.HandlerContext{Stdout: io.Discard},
		[]string{server.URL + "/absent"}); err == nil {
		t.Error("an absent page was fetched")
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
	if err := tail(ctx, interp.HandlerContext{Stdout: wrote}, []string{"-n", "1", "-f", f.Name()}); err == nil ||
		wrote.printed.String() != "two\nthree\n" {
		t.Errorf("printed %q and ended with %v", wrote.printed.String(), err)
	}
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var none bytes.Buffer
	if err := tail(soon, interp.HandlerContext{Stdout: &none}, []string{"-f", "/dev/null"}); err == nil ||
		soon.Err() == nil || none.Len() > 0 {
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
