package platform

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/wait"
)

// privateRun is set in the process that has a mount namespace and a /run of its own, where nothing reaches the
// machine. Its value says whether mounts propagate in there ("shared", as systemd does it) or not ("private").
const privateRun = "PORTHOLE_TEST_PRIVATE_RUN"

// inPrivateRun runs the calling test again, in two such processes. It reports whether this is one of them.
func inPrivateRun(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting and network namespaces need root")
	}
	if mode := os.Getenv(privateRun); mode != "" {
		// Those of the machine were copied into this mount namespace, and may cover each other: what is detached shows
		// more.
		for range 3 {
			others, err := MountPoints()
			must(t, err)
			for _, p := range slices.Backward(others) {
				if strings.HasPrefix(p, "/run/netns") {
					must(t, Detach(p))
				}
			}
		}
		must(t, unix.Mount("run", "/run", "tmpfs", 0, ""))
		if mode == "shared" {
			must(t, unix.Mount("", "/run", "none", unix.MS_SHARED, ""))
		}
		return true
	}

	for _, mode := range []string{"private", "shared"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), privateRun+"="+mode)
		// Go makes all mounts private in there
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("with /run %s: %v\n%s", mode, err, out)
		}
	}
	return false
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// canBeEntered fails unless the namespace is there for us and for a program that knows nothing of us.
func canBeEntered(t *testing.T, name string) {
	t.Helper()
	if !NetnsExists(name) {
		t.Errorf("namespace %s is not there", name)
	}
	if out, err := exec.CommandContext(t.Context(), "nsenter", "--net="+NetnsPath(name), "true").
		CombinedOutput(); err != nil {
		t.Errorf("entering %s: %v: %s", name, err, out)
	}
}

// nothingMounted fails if anything is mounted in NetnsDir, or the folder on itself.
func nothingMounted(t *testing.T) {
	t.Helper()
	all, err := MountPoints()
	must(t, err)
	for _, p := range all {
		if strings.HasPrefix(p, "/run/netns") {
			t.Errorf("%s is still mounted", p)
		}
	}
}

// TestOursThenIproute2: a namespace that somebody adds beside ours does not cover ours.
func TestOursThenIproute2(t *testing.T) {
	if !inPrivateRun(t) {
		return
	}
	must(t, CreateNetns("ours"))
	ip(t, "netns", "add", "theirs")
	canBeEntered(t, "ours")
	canBeEntered(t, "theirs")

	must(t, DeleteNetns("ours"))
	canBeEntered(t, "theirs")
	ip(t, "netns", "delete", "theirs")
	must(t, DeleteNetns("ours")) // again is success, and takes the folder's mount away
	nothingMounted(t)
}

// TestIproute2ThenOurs is the other order, in which the folder is a mount already.
func TestIproute2ThenOurs(t *testing.T) {
	if !inPrivateRun(t) {
		return
	}
	ip(t, "netns", "add", "theirs")
	must(t, CreateNetns("ours"))
	canBeEntered(t, "ours")
	canBeEntered(t, "theirs")

	ip(t, "netns", "delete", "theirs")
	canBeEntered(t, "ours")
	must(t, DeleteNetns("ours"))
	nothingMounted(t)
}

// TestCoveredNamespace: somebody mounts the folder on itself and does not take along what is mounted inside. The
// namespace cannot be entered by its name then, but its processes are found and it can be removed.
func TestCoveredNamespace(t *testing.T) {
	if !inPrivateRun(t) {
		return
	}
	must(t, CreateNetns("ours"))
	inside := exec.CommandContext(t.Context(), "cat")
	stdin, err := inside.StdinPipe()
	must(t, err)
	must(t, StartInNetns(NetnsPath("ours"), inside))
	defer inside.Wait()
	defer stdin.Close()
	for range 2 {
		must(t, unix.Mount(NetnsDir, NetnsDir, "none", unix.MS_BIND, ""))
	}
	if NetnsExists("ours") {
		t.Fatal("the namespace is not covered")
	}

	pids, err := NetnsPids(NetnsPath("ours"))
	must(t, err)
	if len(pids) != 1 || pids[0] != inside.Process.Pid {
		t.Errorf("processes inside: %v, want %d", pids, inside.Process.Pid)
	}
	must(t, DeleteNetns("ours"))
	if _, err := os.Lstat(NetnsPath("ours")); !os.IsNotExist(err) {
		t.Errorf("its file: %v", err)
	}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err != nil ||
		bytes.Contains(table, []byte("/run/netns/ours")) {
		t.Errorf("it is still mounted (%v):\n%s", err, table)
	}
}

// TestMountedBefore: namespaces from a time when the folder was not a mount, as container runtimes make them, are
// covered by nothing and can be removed.
func TestMountedBefore(t *testing.T) {
	if !inPrivateRun(t) {
		return
	}
	must(t, os.MkdirAll(NetnsDir, 0o755))
	must(t, bindNewNetns(NetnsPath("old")))
	must(t, CreateNetns("new"))
	canBeEntered(t, "old")
	canBeEntered(t, "new")
	must(t, DeleteNetns("old"))
	must(t, DeleteNetns("new"))
	nothingMounted(t)
}

// withoutMain makes a process of this program whose first thread has ended while another goes on, until its input ends.
const withoutMain = "PORTHOLE_TEST_WITHOUT_MAIN"

func init() {
	if os.Getenv(withoutMain) == "" {
		return
	}
	runtime.LockOSThread() // to the first thread, in init
	runs := make(chan bool)
	go func() {
		runtime.LockOSThread()
		close(runs)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	<-runs
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) // of this thread alone
	}
}

// TestWithoutMainThread: a process whose first thread has ended is found in its namespace, and its environment is
// known.
func TestWithoutMainThread(t *testing.T) {
	if !inPrivateRun(t) {
		return
	}
	must(t, CreateNetns("ours"))
	inside := exec.CommandContext(t.Context(), "/proc/self/exe")
	inside.Env = []string{withoutMain + "=yes", "GOMAXPROCS=4"}
	stdin, err := inside.StdinPipe()
	must(t, err)
	must(t, StartInNetns(NetnsPath("ours"), inside))
	defer inside.Wait()
	defer stdin.Close()

	wait.True(t, 10*time.Second, "its first thread to end", func() bool {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", inside.Process.Pid))
		return err != nil || link == ""
	})
	if pids, err := NetnsPids(NetnsPath("ours")); err != nil || len(pids) != 1 || pids[0] != inside.Process.Pid {
		t.Errorf("processes inside: %v, %v, want %d", pids, err, inside.Process.Pid)
	}
	if env := ProcessEnviron(inside.Process.Pid); !strings.Contains(env, withoutMain+"=yes\x00") {
		t.Errorf("its environment: %q", env)
	}
	stdin.Close()
	must(t, inside.Wait())
	must(t, DeleteNetns("ours"))
}

func TestNetnsPidsOfNothing(t *testing.T) {
	if pids, err := NetnsPids(NetnsPath("porthole-not-there")); err != nil || len(pids) > 0 {
		t.Errorf("got %v, %v", pids, err)
	}
}
