//go:build linux

package wine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit"
)

// TestPrefix makes a template and a host's view of it, and asks a Windows program for the build that it sees.
func TestPrefix(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	tools, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	dir := t.TempDir()
	dlls, err := testkit.DLLs("../..")
	if err != nil {
		t.Skip(err)
	}
	build, err := LookupBuild(20348)
	if err != nil {
		t.Fatal(err)
	}
	o := TemplateOptions{Dir: TemplateDir(dir, 20348), Build: build, DLLDir: dlls}
	if err := tools.EnsureTemplate(ctx, o); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := tools.EnsureTemplate(ctx, o); err != nil || time.Since(begin) > 2*time.Second {
		t.Fatalf("second time: %v after %v", err, time.Since(begin))
	}
	m := PrefixMount(o.Dir, filepath.Join(dir, "host"))
	for range 2 {
		if err := m.Ensure(); err != nil {
			t.Fatal(err)
		}
	}

	defer m.Unmount()
	p := Prefix{Dir: m.Target}
	for range 2 {
		if err := p.SetMachine("node-with-a-long-name"); err != nil {
			t.Fatal(err)
		}
		if err := p.InstallDriver("OVSExt"); err != nil {
			t.Fatal(err)
		}
	}
	var server *exec.Cmd // the first that is started
	stop, err := tools.StartServer(ctx, p, func(cmd *exec.Cmd) error {
		if server == nil {
			server = cmd
		}
		return cmd.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(stop)
	defer stop()
	if out, err := tools.Command(ctx, p, "reg", "query", `HKLM\SYSTEM\CurrentControlSet\Services\OVSExt`, "/v",
		"Start").Output(); err != nil || !bytes.Contains(out, []byte("0x1")) {
		t.Fatalf("the driver: %v\n%s", err, out)
	}
	cmd := tools.Command(ctx, p, "reg", "query", `HKLM\Software\Microsoft\Windows NT\CurrentVersion`, "/v",
		"CurrentBuildNumber")
	out, err := cmd.Output()
	if err != nil || !bytes.Contains(out, []byte("20348")) {
		t.Fatalf("reg query: %v\n%s", err, out)
	}
	t.Run("time zone", func(t *testing.T) { testTimeZone(ctx, t, tools, p) })
	t.Run("products", func(t *testing.T) { testProducts(ctx, t, tools, p) })
	t.Run("a Windows that is too old", func(t *testing.T) { testTooOld(ctx, t, tools, p) })
	t.Run("ipconfig", func(t *testing.T) { testIPConfig(ctx, t, tools, p) })
	t.Run("findstr", func(t *testing.T) { testFindstr(ctx, t, tools, p) })
	t.Run("ping", func(t *testing.T) { testPing(ctx, t, tools, p) })
	t.Run("cmd", func(t *testing.T) { testCmd(ctx, t, tools, p) })
	t.Run("stacks", func(t *testing.T) { testStacks(ctx, t, tools, p) })
	t.Run("sockets", func(t *testing.T) { testSockets(ctx, t, tools, p) })
	t.Run("exit code", func(t *testing.T) { testExitCode(ctx, t, tools, p) })
	t.Run("an end that hangs", func(t *testing.T) { testHangingEnd(ctx, t, tools, p, server.Process) })
	mends, unknown := built(ctx, t, p, "mends", "build", "../mends"), unknownDLL(ctx, t)
	t.Run("mends", func(t *testing.T) { testMends(ctx, t, tools, p, mends) })
	if unknown != nil {
		t.Run("unknown Wine", func(t *testing.T) { testUnknownWine(ctx, t, tools, p, mends, unknown) })
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(); err != nil {
		t.Fatal(err)
	}
	if mounted, err := IsMounted(m.Target); mounted || err != nil {
		t.Errorf("still mounted: %v, %v", mounted, err)
	}
	if hive, _ := os.ReadFile(filepath.Join(o.Dir, "system.reg")); !strings.Contains(string(hive), `"UBR"`) {
		t.Error("the template's registry has no UBR")
	}
}

// program builds one of testdata into the prefix and gives its Windows path.
func program(ctx context.Context, t *testing.T, p Prefix, name string) string {
	t.Helper()
	return built(ctx, t, p, name, "build", "./testdata/"+name)
}

// built has go make NAME.exe in the prefix and gives its Windows path.
func built(ctx context.Context, t *testing.T, p Prefix, name, how string, args ...string) string {
	t.Helper()
	args = append([]string{how, "-o", filepath.Join(p.DriveC(), name+".exe")}, args...)
	compile := exec.CommandContext(ctx, "go", args...)
	compile.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	return `C:\` + name + `.exe`
}

// testSockets runs a Windows program that does UDP, TCP and name lookups with Go's package net.
func testSockets(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	out, err := tools.Command(ctx, p, program(ctx, t, p, "sockets")).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// testStacks compares the memory of a program with that of the same program with a hundred more threads.
func testStacks(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	path := program(ctx, t, p, "threads")
	const more = 100
	few, many := resident(t, tools.Command(ctx, p, path, "1")), resident(t,
		tools.Command(ctx, p, path, strconv.Itoa(1+more)))
	const most = 300 << 10 // seen: 71 KiB; what Wine clears of a stack is 960
	if each := (many - few) / more; each > most {
		t.Errorf("a thread takes %d KiB of memory, want at most %d", each>>10, most>>10)
	} else {
		t.Logf("a thread takes %d KiB", each>>10)
	}
}

// threads starts testdata/threads, and returns when all its threads run. It ends when its input does.
func threads(t *testing.T, cmd *exec.Cmd) (input io.Closer) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "running" {
		t.Fatalf("the program says %q, %v", line, err)
	}
	return in
}

// resident is the memory of testdata/threads, in bytes, when all its threads run. It ends it. It also checks that the
// addresses of the process are not random.
func resident(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	in := threads(t, cmd)

	// setarch becomes wine64, and that the program: it has the same id.
	const notRandom = "00040000" // ADDR_NO_RANDOMIZE of personality(2)
	if is, err := os.ReadFile(fmt.Sprintf("/proc/%d/personality", cmd.Process.Pid)); err != nil ||
		strings.TrimSpace(string(is)) != notRandom {
		t.Errorf("the program has personality %s, %v, want %s", is, err, notRandom)
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
