package serve

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// host is an emulated host without a network, with a running hcsd.
type host struct {
	t      *testing.T
	o      Options
	prefix wine.Prefix
	stop   func() // ends hcsd
}

// startHost makes a host in a folder of its own.
func startHost(t *testing.T) *host {
	t.Helper()
	return startHostOf(t, 20348)
}

// startHostOf makes a host of a Windows build.
func startHostOf(t *testing.T, number int) *host {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts and containers need root")
	}
	tools, err := wine.Find()
	if err != nil {
		t.Skip(err)
	}
	runcPath, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("containers need runc: ", err)
	}
	dlls, err := testkit.DLLs("../../..")
	if err != nil {
		t.Skip(err)
	}
	build, err := wine.LookupBuild(number)
	check(t, err)

	dir := t.TempDir()
	name := filepath.Base(filepath.Dir(dir)) // so that two tests have cgroups of their own
	h := &host{t: t, o: Options{Cgroup: "/porthole/test-" + name, HostDir: filepath.Join(dir, "hosts", "h"),
		Template: wine.TemplateDir(dir, number), Tools: tools, Runc: runcPath, CPUs: runtime.NumCPU()}}
	h.prefix = wine.Prefix{Dir: filepath.Join(h.o.HostDir, "prefix")}
	check(t, tools.EnsureTemplate(t.Context(),
		wine.TemplateOptions{Dir: h.o.Template, Build: build, DLLDir: dlls, Owner: wine.Owner}))
	check(t, os.MkdirAll(h.o.HostDir, 0o755))
	check(t, os.Chmod(filepath.Dir(dir), 0o711)) // the host's programs run as a user of their own
	mount := wine.PrefixMount(h.o.Template, h.o.HostDir)
	check(t, mount.Ensure())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if h.stop != nil {
			h.stop()
		}
		if err := errors.Join(tools.StopServer(ctx, h.prefix), Clean(ctx, h.o.HostDir, runcPath), mount.Unmount(),
			platform.RemoveCgroup(ctx, h.o.Cgroup)); err != nil {
			t.Error(err)
		}
	})
	h.o.Listen = freeAddress(t)
	h.start()
	return h
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// freeAddress is a TCP address that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

// start starts hcsd.
func (h *host) start() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, h.o) }()
	h.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
		h.stop = nil
	}
	wait.True(h.t, 20*time.Second, "hcsd listens", func() bool {
		conn, err := net.Dial("tcp4", h.o.Listen)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// built makes a program of testdata for Windows at a path below C:.
func (h *host) built(name, at string) {
	h.t.Helper()
	cmd := exec.Command("go", "build", "-o", filepath.Join(h.prefix.DriveC(), at), "./testdata/"+name)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("building %s: %v\n%s", name, err, out)
	}
}

// write makes a file on C: of the host.
func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.prefix.DriveC(), name)
	check(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(h.t, os.WriteFile(path, []byte(text), 0o644))
	top, _, _ := strings.Cut(name, "/")
	check(h.t, wine.Own(filepath.Join(h.prefix.DriveC(), top)))
}

// command is a program of the host, which is ended after three minutes.
func (h *host) command(exe string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Minute)
	h.t.Cleanup(cancel)
	cmd := h.o.Tools.Command(ctx, h.prefix, exe, args...)
	cmd.Env = append(cmd.Env, "HCSD_ADDR="+h.o.Listen)
	return cmd
}

// says fails the test if the output of a program lacks a line.
func (h *host) says(out string, want ...string) {
	h.t.Helper()
	lines := strings.Split(strings.ReplaceAll(out, "\r\n", "\n"), "\n")
	for _, w := range want {
		if !slices.Contains(lines, w) {
			h.t.Errorf("the program does not say %s:\n%s", w, out)
		}
	}
}

// empty fails the test if something of systems or layers is left.
func (h *host) empty(dirs ...string) {
	h.t.Helper()
	for _, dir := range dirs {
		if left, err := os.ReadDir(h.o.host().Path(dir)); err != nil || len(left) > 0 {
			h.t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// TestSystems has a program make layers and a system, and run programs in it, as hcsshim does.
func TestSystems(t *testing.T) {
	h := startHost(t)
	h.write("layers/base/Files/hello.txt", "hello")
	h.write("layers/scratch/note", "")
	h.write("shared/colour.txt", "red ")
	h.built("client", "client.exe")
	h.built("app", "layers/base/Files/app.exe")

	out, err := h.command(`C:\client.exe`).Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Error(err)
	}
	h.says(string(out),
		"early 0x80070015", "told 0x3 1 0x0", `output "hellored blue green POD-A ContainerAdministrator \r\n"`,
		`status {"ProcessId":PID,"Exited":true,"ExitCode":300,"LastWaitResult":0}`, `drivers "there\r\n"`,
		"absent 0x80070002", "folder 0x8007010b",
		`echo "one\ntwo\n8 <nil>\n"`, "listed true", "statistics <nil> Running true true", "killed true",
		"console true true", "resized true", "no size 0x80070057", "typed true", "default true", "interrupted true",
		`handled "ready\nterminated\n"`, "stopped true", "unhandled true",
		"again 0xc037010f", "busy 0x80070020", "terminate 0xc0370103", "told 0x1 1 0x0", "terminate again 0xc0370110",
		"gone 0xc037010e")
	h.empty("systems", "layers")

	t.Run("restart", h.testRestart)
}

// testRestart starts hcsd again while a program runs: containers go on, and whoever opens them again finds them as
// they were.
func (h *host) testRestart(t *testing.T) {
	h.write("layers/scratch/note", "")
	cmd := h.command(`C:\client.exe`, "hold")
	out := &testkit.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	check(t, cmd.Start())
	wait.True(t, time.Minute, "a program runs", func() bool { return strings.Contains(out.String(), "holding") })
	h.confined()
	left, err := filepath.Glob(filepath.Join(h.o.host().SystemDir("test-2"), "run", "1.*"))
	check(t, err)
	if len(left) > 0 {
		t.Errorf("a program that could not be started has left %v", left)
	}
	h.stop()
	// as an hcsd leaves it that is killed while it starts a program
	for _, name := range []string{"run/3.out", "prefix/run/3.line"} {
		check(t, os.WriteFile(filepath.Join(h.o.host().SystemDir("test-2"), name), nil, 0o600))
	}
	h.start()

	if err := cmd.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Error(err)
	}
	h.says(out.String(), `holding "ready\n"`, "told 0x1000000 1 0x0", "properties true", `more "another\r\n"`,
		`handled "ready\nterminated\n"`, "stopped true", "terminate 0xc0370103", "told 0x1 8 0x0")
	wait.True(t, 20*time.Second, "the system is forgotten with its last handle", func() bool {
		left, err := os.ReadDir(h.o.host().Path("systems"))
		return err == nil && len(left) == 0
	})
}
