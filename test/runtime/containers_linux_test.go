package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// containers is a world for TestContainers.
type containers struct{ *world }

// TestContainers has containerd.exe run containers with all that a pod may ask for, and ends its programs in the
// middle.
func TestContainers(t *testing.T) {
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		t.Skip("takes minutes: PORTHOLE_RUNTIME=long, or `make test-runtime`")
	}
	p := buildPrograms(t)
	w := containers{p.newWorld(t, "20348")}
	w.useRegistry()
	if _, err := w.images.PullImage(call(t),
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: testImage}}); err != nil {
		t.Fatal(err)
	}
	w.useNetwork()
	w.usePause(t)
	command(t, forWindows, "go", "build", "-o", filepath.Join(w.driveC(), "tools", "app.exe"),
		"../../emulator/hcsd/serve/testdata/app")

	t.Run("layers", w.testLayers)
	t.Run("pod", w.testContainersOfPod)
	t.Run("disk", w.testDisk)
	t.Run("pipes", w.testPipes)
	t.Run("programs", startCases{w}.testPrograms)
	t.Run("network", networkCases{w}.testNetwork)
	t.Run("kills", w.testKills)
	t.Run("full disk", faultCases{w}.testFullDisk)
	t.Run("bad layers", faultCases{w}.testBadLayers)
	t.Run("one hangs", faultCases{w}.testOneHangs)
	t.Run("steps", faultCases{w}.testSteps)
	t.Run("reboot", w.testReboot)
}

// asked is a container to start: what is not set is the test image's.
type asked struct {
	name, image string
	command     []string
	mounts      []*runtimeapi.Mount
	resources   *runtimeapi.WindowsContainerResources
}

// run creates and starts a container, and waits for the words that it logs.
func (w containers) run(t *testing.T, p pod, a asked, logs string) (id string) {
	t.Helper()
	if a.image == "" {
		a.image = testImage
	}
	c, err := w.runtime.CreateContainer(call(t),
		&runtimeapi.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config,
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: a.name}, Image: &runtimeapi.ImageSpec{Image: a.image},
				LogPath: a.name + ".log", Command: a.command,
				Mounts: a.mounts, Windows: &runtimeapi.WindowsContainerConfig{Resources: a.resources},
			}})
	if err != nil {
		t.Fatalf("CreateContainer: %v", err)
	}
	if _, err := w.runtime.StartContainer(call(t),
		&runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		t.Fatalf("StartContainer: %v", err)
	}
	wait.True(t, 30*time.Second, a.name+" logs "+logs,
		func() bool { return strings.Contains(w.podLog(p, a.name), logs) })
	return c.ContainerId
}

// shell runs a command line in a container and returns its output with single line feeds. It fails the test if the
// command fails.
func (w containers) shell(t *testing.T, id, line string) string {
	t.Helper()
	out, code := w.try(t, id, line)
	if code != 0 {
		t.Errorf("%s: exit code %d: %s", line, code, out)
	}
	return out
}

func (w containers) try(t *testing.T, id, line string) (string, int32) {
	t.Helper()
	r, err := w.runtime.ExecSync(call(t),
		&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", line}, Timeout: 20})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.ReplaceAll(string(r.Stdout)+string(r.Stderr), "\r\n", "\n"), r.ExitCode
}

// testContainersOfPod has two containers in one pod: each has its own C:, both have the pod's network, one has mounts
// and limits.
func (w containers) testContainersOfPod(t *testing.T) {
	w.write("var/log/pods/two/.keep", "")
	w.write("mnt/rw/given.txt", "given")
	w.write("mnt/ro/..data_1/key", "value")
	check(t, os.Symlink("..data_1", filepath.Join(w.driveC(), "mnt/ro/..data")))
	check(t, os.Symlink("..data/key", filepath.Join(w.driveC(), "mnt/ro/key")))
	w.write("mnt/one.txt", "single")
	p := w.runPod(t, "two")
	mount := func(host, container string, readonly bool) *runtimeapi.Mount {
		return &runtimeapi.Mount{HostPath: host, ContainerPath: container, Readonly: readonly}
	}
	const limit = 192 << 20
	first := w.run(t, p, asked{name: "first", mounts: []*runtimeapi.Mount{
		mount(`C:\mnt\rw`, `C:\data`, false), mount(`C:\mnt\ro`, `C:\etc\config`, true),
		mount(`C:\mnt\one.txt`, `C:\single.txt`, true), mount(`C:\tools`, `C:\tools`, true),
	}, resources: &runtimeapi.WindowsContainerResources{MemoryLimitInBytes: limit, CpuMaximum: 5000}}, "serving HTTP")
	second := w.run(t, p, asked{name: "second",
		command: []string{`C:\testapp.exe`, "serve", "--http", ":8090", "--tcp", ":17", "--udp", ":17"}},
		"serving HTTP")

	t.Run("files", func(t *testing.T) {
		if got := w.shell(t, first,
			`type C:\data\given.txt & type C:\etc\config\key & type C:\single.txt & echo made> C:\data\made.txt & echo mine> C:\mine.txt`); got != "givenvaluesingle" {
			t.Errorf("mounts have %q", got)
		}
		if made, err := os.ReadFile(filepath.Join(w.driveC(), "mnt/rw/made.txt")); err != nil ||
			!strings.HasPrefix(string(made), "made") {
			t.Errorf("the host has %q, %v", made, err)
		}
		for _, line := range []string{`echo x> C:\etc\config\new.txt`, `echo x> C:\single.txt`} {
			if out, _ := w.try(t, first, line); !strings.Contains(out, "denied") { // cmd.exe of Wine ends with 0
				t.Errorf("%s is not denied: %s", line, out)
			}
		}
		if out, code := w.try(t, second, `type C:\mine.txt`); code == 0 {
			t.Errorf("the second container sees a file of the first: %s", out)
		}
	})
	t.Run("terminal", func(t *testing.T) { w.testTerminal(t, first) })
	t.Run("statistics", func(t *testing.T) { w.testStatistics(t, p, first, limit) })
	t.Run("memory", func(t *testing.T) { w.testMemory(t, p) })
	if err := w.removePod(p); err != nil {
		t.Error(err)
	}
	w.testNothingLeft(t)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tunnel listens on this machine for what listens on the host's loopback at the address, until the test ends.
func (w containers) tunnel(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { l.Close() })

	dial := testkit.DialIn(platform.NetnsPath("porthole-" + w.name))
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := dial(t.Context(), "tcp4", address)
			if err != nil {
				near.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(far, near) // either end may go first
				far.Close()
			}()
			go func() {
				_, _ = io.Copy(near, far)
				near.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// terminal is a user's terminal: sizes are told when they change, and what is shown can be waited for.
type terminal struct {
	sizes chan remotecommand.TerminalSize
	mu    sync.Mutex
	shown bytes.Buffer
}

func (s *terminal) Next() *remotecommand.TerminalSize {
	size, ok := <-s.sizes
	if !ok {
		return nil
	}
	return &size
}

func (s *terminal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.Write(p)
}

func (s *terminal) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.shown.String(), text)
}

// testTerminal runs programs on a terminal, as `crictl exec -it` does.
func (w containers) testTerminal(t *testing.T, id string) {
	out := &terminal{sizes: make(chan remotecommand.TerminalSize, 2)}
	in, typed := io.Pipe()
	ended := make(chan error, 1)
	out.sizes <- remotecommand.TerminalSize{Width: 101, Height: 31}
	go func() { ended <- w.exec(t, id, out, in, `C:\tools\app.exe`, "console") }()
	wait.True(t, 30*time.Second, "the console has the size of the terminal",
		func() bool { return out.shows("columns=101,lines=31,") })
	out.sizes <- remotecommand.TerminalSize{Width: 60, Height: 20}
	wait.True(t, 30*time.Second, "the console has the new size",
		func() bool { return out.shows("columns=60,lines=20,") })
	fmt.Fprint(typed, "37\r")
	exitedWith(t, ended, 37)
	close(out.sizes)

	shell := &terminal{sizes: make(chan remotecommand.TerminalSize)}
	in, typed = io.Pipe()
	go func() { ended <- w.exec(t, id, shell, in, "cmd") }()
	wait.True(t, 30*time.Second, "cmd asks", func() bool { return shell.shows(`C:\>`) })
	fmt.Fprint(typed, "set PORTHOLE_IMAGE\r")
	wait.True(t, 30*time.Second, "cmd answers", func() bool { return shell.shows("PORTHOLE_IMAGE=porthole/testapp:1") })
	fmt.Fprint(typed, "exit 44\r")
	exitedWith(t, ended, 44)
	close(shell.sizes)
}

func exitedWith(t *testing.T, ended <-chan error, code int) {
	t.Helper()
	select {
	case err := <-ended:
		var exit interface{ ExitStatus() int }
		if !errors.As(err, &exit) || exit.ExitStatus() != code {
			t.Errorf("the program ended with %v, want code %d", err, code)
		}
	case <-time.After(30 * time.Second):
		t.Error("the program does not end")
	}
}

// exec runs a program of a container on a terminal.
func (w containers) exec(t *testing.T, id string, tty *terminal, in io.Reader, command ...string) error {
	r, err := w.runtime.Exec(call(t),
		&runtimeapi.ExecRequest{ContainerId: id, Cmd: command, Tty: true, Stdin: true, Stdout: true})
	if err != nil {
		return err
	}
	u, err := url.Parse(r.Url)
	if err != nil {
		return err
	}
	u.Host = w.tunnel(t, u.Host)
	e, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: u.Host}, "POST", u)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return e.StreamWithContext(ctx,
		remotecommand.StreamOptions{Stdin: in, Stdout: tty, Tty: true, TerminalSizeQueue: tty})
}
