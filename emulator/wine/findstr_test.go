//go:build linux

package wine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testFindstr has our findstr.exe look for texts and expressions in its input and in files.
func testFindstr(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	dir := filepath.Join(p.DriveC(), "found")
	for name, text := range map[string]string{"a.txt": "one\r\nTwo three\r\nfour4\r\n", "below/b.txt": "one more\r\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct {
		args     []string
		in, want string // lines of want are separated by bars
		code     int
	}{
		{[]string{"x*"}, "testing 1 2 3", "testing 1 2 3", 0},
		{[]string{"/n", "one four"}, "", `1:one|3:four4`, 0},
		{[]string{"/i", "/c:two THREE"}, "", "Two three", 0},
		{[]string{"/v", "/x", "one"}, "", "Two three|four4", 0},
		{[]string{"/r", "/c:^T.*e$"}, "", "Two three", 0},
		{[]string{`[^0-9][2-5]\>`}, "", "four4", 0},
		{[]string{"/l", "o*"}, "", "", 1},
		{[]string{"/b", "wo"}, "", "", 1},
		{[]string{"/s", "/m", "one", `C:\found\*.txt`}, "", `C:\found\a.txt|C:\found\below\b.txt`, 0},
	} {
		if c.in == "" && !strings.HasPrefix(c.args[len(c.args)-1], `C:\`) {
			c.args = append(c.args, `C:\found\a.txt`)
		}
		cmd := tools.Command(ctx, p, "findstr", c.args...)
		cmd.Stdin = strings.NewReader(c.in)
		out, err := cmd.Output()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		got := strings.TrimSuffix(strings.ReplaceAll(string(out), "\r\n", "|"), "|")
		if got != c.want || cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("findstr %q: code %d, %q; want %d, %q", c.args, cmd.ProcessState.ExitCode(), got, c.code, c.want)
		}
	}
}
