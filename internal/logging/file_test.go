package logging

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFromArgs(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want FileOptions
	}{
		{nil, FileOptions{}},
		{[]string{"kubelet", "--v=2"}, FileOptions{}},
		{[]string{"kubelet", "--log-file", `C:\logs\kubelet.log`, "--nosuch"},
			FileOptions{Path: `C:\logs\kubelet.log`}},
		{[]string{"--log-file=a", "--log-file=b", "--log-file-max-size=3", "--log-file-max-files", "2"},
			FileOptions{Path: "b", MaxSize: 3 << 20, Keep: 2}},
		{[]string{"--log-file-max-size=many", "--log-file"}, FileOptions{}},
		{[]string{"--", "--log-file=a"}, FileOptions{}},
		{[]string{"log-file=a"}, FileOptions{}},
	} {
		if got := FromArgs(tc.args); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q: %+v, want %+v", tc.args, got, tc.want)
		}
	}
}

// TestRotation writes numbered lines: none is lost, none is twice, no file is too large, and no more files are kept
// than asked for.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "x.log")
	o := FileOptions{Path: path, MaxSize: 1000, Keep: 4}
	f, err := OpenFile(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	const lines = 150 // of 20 bytes: three files

	for i := range lines {
		if i == 70 { // the program starts again
			f.Close()
			if f, err = OpenFile(o); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fmt.Fprintf(f, "line %014d\n", i); err != nil {
			t.Fatal(err)
		}
	}

	var all string
	for _, name := range []string{path + ".2", path + ".1", path} {
		data, err := os.ReadFile(name)
		if err != nil || len(data) > 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		all += string(data)
	}
	if n := strings.Count(all, "\n"); n != lines || !strings.HasPrefix(all, "line 00000000000000\n") ||
		!strings.HasSuffix(all, "149\n") {
		t.Errorf("%d lines, want %d in order", n, lines)
	}

	for range 300 {
		fmt.Fprintln(f, "filling up until the oldest is gone")
	}
	if kept, _ := filepath.Glob(path + "*"); len(kept) != 4 {
		t.Errorf("kept %v, want 4", kept)
	}
}

// TestNoRename: a file that cannot be renamed grows on; a disk where nothing can be renamed loses no line.
func TestNoRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	if err := os.MkdirAll(path+".1/in the way", 0o755); err != nil { // a folder with content is not replaced
		t.Fatal(err)
	}
	f, err := OpenFile(FileOptions{Path: path, MaxSize: 100, Keep: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for range 100 {
		if _, err := fmt.Fprintln(f, "a line"); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || strings.Count(string(data), "a line\n") != 100 {
		t.Errorf("%d bytes, %v; want 100 lines", len(data), err)
	}
}
