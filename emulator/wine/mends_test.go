//go:build linux

package wine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/ownroot"
)

// testMends has a program do what Wine does otherwise than Windows. It prints a line for each.
func testMends(ctx context.Context, t *testing.T, tools Tools, p Prefix, mends string) {
	// Wine itself writes to the standard error: a thread that asks wineserver while the program ends finds its socket
	// closed.
	var wineSays bytes.Buffer
	cmd := tools.Command(ctx, p, mends)
	cmd.Stderr = &wineSays
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "ok ")
		if !ok {
			t.Error(strings.TrimSpace(line))
			continue
		}
		t.Run(name, func(*testing.T) {})
	}
	if err != nil || len(out) == 0 {
		t.Errorf("%v\n%s", err, wineSays.String())
	}

	asService := tools.Command(ctx, p, mends, "service")
	asService.Env = append(asService.Env, "PORTHOLE_SERVICE=1")
	if out, err := asService.CombinedOutput(); err != nil {
		t.Errorf("a service: %v\n%s", err, out)
	}

	// Every program is told the version, also one that does not load our DLL.
	if out, err := tools.Command(ctx, p, "cmd", "/c", "ver").Output(); err != nil ||
		!bytes.Contains(out, []byte("10.0.20348")) {
		t.Errorf("ver: %v\n%s", err, out)
	}
}

const compiler = "x86_64-w64-mingw32-gcc"

// unknownDLL is our DLL, built for another Wine: it expects other code in ntdll.
func unknownDLL(ctx context.Context, t *testing.T) []byte {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil && ownroot.Inside() != "" {
		t.Logf("not tried with an unknown Wine: the root folder has no %s", compiler)
		return nil
	}
	out := filepath.Join(t.TempDir(), "unknown.dll")
	sources, err := filepath.Glob("../dll/mend_*.c")
	if err != nil {
		t.Fatal(err)
	}
	sources = append(sources, "../dll/bcryptprimitives.c", "../dll/mend.c", "../dll/stack.c")
	args := append([]string{"-shared", "-DSTUB_FIRST=0x4d", "-o", out}, sources...)
	if out, err := exec.CommandContext(ctx, compiler, append(args, "-ladvapi32", "-lntdll")...).
		CombinedOutput(); err != nil {
		t.Fatalf("building the DLL: %v\n%s", err, out)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// testUnknownWine gives programs a DLL that does not know this Wine: it changes nothing, says what is not mended, and
// programs run as they did without it.
func testUnknownWine(ctx context.Context, t *testing.T, tools Tools, p Prefix, mends string, unknown []byte) {
	installed := filepath.Join(p.DriveC(), "windows", "system32", "bcryptprimitives.dll")
	known, err := os.ReadFile(installed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(installed, unknown, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(installed, known, 0o755)

	out, err := tools.Command(ctx, p, mends, "unmended", "version", "registry").CombinedOutput()
	if err == nil {
		t.Error("nothing fails")
	}
	for _, want := range []string{
		"unmended: 25: NtCreateNamedPipeFile: the first client of a named pipe of Go is never answered; " +
			"NtSetInformationFile: os.RemoveAll of Go fails; ",
		"ok version",
		`registry: CurrentVersion is "10.0"`,
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the program does not say %q:\n%s", want, out)
		}
	}

	// The log of the host's pipe says it in a line, and the pipe itself needs no mending.
	out, err = tools.Command(ctx, p, PipeProgram, "--check").CombinedOutput()
	if line, rest, _ := strings.Cut(string(out), "\n"); err != nil ||
		!strings.Contains(line, "not one that can be mended: NtCreateNamedPipeFile: ") || rest != "" {
		t.Errorf("the host's pipe: %v, it says %q", err, out)
	}
}

// testExitCode runs a program that ends while its threads do, so often that Wine alone would lose the exit code: it did
// in 21 of 100 runs.
func testExitCode(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	const runs, want = 40, 7
	exe := program(ctx, t, p, "exitcode")
	for n := range runs {
		cmd := tools.Command(ctx, p, exe)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Fatalf("run %d ends with %d, want %d: %v: %s", n, code, want, err, out)
		}
	}
}

// testHangingEnd has a program end while its wineserver answers nothing: Linux ends it after 20 s.
func testHangingEnd(ctx context.Context, t *testing.T, tools Tools, p Prefix, server *os.Process) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := exec.LookPath(compiler); err != nil && ownroot.Inside() != "" {
		t.Skipf("the root folder has no %s", compiler)
	}
	exe := filepath.Join(p.DriveC(), "end.exe")
	compile := exec.CommandContext(ctx, compiler, "-s", "-O2", "-o", exe, "testdata/end/end.c")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}

	cmd := tools.Command(ctx, p, `C:\end.exe`)
	in := threads(t, cmd)

	if err := server.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer server.Signal(unix.SIGCONT)
	err := errors.Join(in.Close(), cmd.Wait())
	if ctx.Err() != nil {
		t.Fatal("the program does not end by itself")
	}
	if by := cmd.ProcessState.Sys().(syscall.WaitStatus); !by.Signaled() || by.Signal() != unix.SIGKILL {
		t.Errorf("the program ends by %v, want by Linux: %v", cmd.ProcessState, err)
	}
}
