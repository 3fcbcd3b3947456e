//go:build linux

package wine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// testCmd has cmd write where it may not, as upstream's tests of volumes on Windows nodes do: Windows' words on
// standard error.
func testCmd(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	dir := filepath.Join(p.DriveC(), "read-only")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, 0)

	for _, c := range []struct {
		line        []string
		out, stderr string
		codes       []int // Wine's cmd ends with 0 after a failed redirection, Windows' with 1: docs/gaps.md
	}{
		{[]string{"echo", "word", ">", `C:\read-only\file.txt`}, "", "Access is denied.", []int{0}},
		{[]string{"echo word", ">", `C:\read-only\file.txt`}, "", "Access is denied.", []int{0}},
		// 8.0 and 10.0
		{[]string{`echo word > C:\read-only\file.txt || echo refused`}, "refused", "Access is denied.", []int{0, 1}},
		{[]string{"cd", `C:\none`}, "", "The system cannot find the file specified.", []int{1}},
		{[]string{"echo", "word", ">", `C:\cmd.txt`}, "", "", []int{0}},
		{[]string{"type", `C:\cmd.txt`}, "word", "", []int{0}},
		{[]string{"exit 7"}, "", "", []int{7}},
	} {
		cmd := tools.Command(ctx, p, "cmd", append([]string{"/c"}, c.line...)...)
		var out, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if strings.TrimSpace(out.String()) != c.out || strings.TrimSpace(stderr.String()) != c.stderr ||
			!slices.Contains(c.codes, cmd.ProcessState.ExitCode()) {
			t.Errorf("cmd /c %v: code %d, output %q, error output %q; want %v, %q, %q", c.line,
				cmd.ProcessState.ExitCode(), out.String(), stderr.String(), c.codes, c.out, c.stderr)
		}
	}
}
