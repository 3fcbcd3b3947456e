package host_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// forWindows is the environment in which the go command builds programs of a host.
var forWindows = []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"}

// world is a build of the command line and a state folder of its own.
type world struct {
	t              *testing.T
	porthole, name string
	dir            string
}

// TestHost lives a host's whole life through the command line: a Windows program works on it as on a real host, its HNS
// survives being killed without a packet lost, and nothing is left of it.
func TestHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces and mounts need root")
	}
	w := newWorld(t)
	w.must("create", w.name, "--runtime", "none")
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(w.dir, "hosts", w.name)); err == nil {
			w.must("delete", w.name)
		}
	})
	t.Run("errors", w.testErrors)
	t.Run("stdio and exit code", w.testProgram)

	t.Run("shown through a link", w.testShownThroughLink)
	t.Run("shown over another", w.testShownOver)
	t.Run("ended by a signal", w.testEnded)
	t.Run("ways out", w.testWaysOut)
	var pods [2]string
	t.Run("network", func(t *testing.T) { pods = w.testNetwork(t) })
	if !t.Failed() {
		t.Run("kill HNS", func(t *testing.T) { w.testKill(t, pods) })
	}
	t.Run("services", w.testServices)
	t.Run("unkind", w.testUnkind)
	w.testDelete()
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "state"), name: fmt.Sprintf("t1%d", os.Getpid())}
	bin := filepath.Join(t.TempDir(), "bin")
	w.porthole = filepath.Join(bin, "porthole")
	command(t, nil, "go", "build", "-o", w.porthole, "../../cmd/porthole")
	dlls, err := testkit.DLLs("../..")
	if err != nil {
		t.Skip(err)
	}
	if err := os.CopyFS(filepath.Join(bin, "windows", "dll"), os.DirFS(dlls)); err != nil {
		t.Fatal(err)
	}
	command(t, forWindows, "go", "build", "-o", filepath.Join(bin, "probe.exe"), "./testdata/hostprobe")
	command(t, forWindows, "go", "build", "-o", filepath.Join(bin, "escape.exe"),
		"../../emulator/hcsd/serve/testdata/escape")
	return w
}

func command(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// call runs `porthole host` and gives its exit code.
func (w *world) call(stdin string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	args = append([]string{"host", args[0], "--dir", w.dir}, args[1:]...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.porthole, args...)
	cmd.WaitDelay = time.Second // an output that stays open is an error
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (w *world) must(args ...string) string {
	w.t.Helper()
	out, errs, code := w.call("", args...)
	if code != 0 {
		w.t.Fatalf("porthole host %v: exit code %d\n%s%s", args, code, out, errs)
	}
	return out
}

// probe runs the Windows program.
func (w *world) probe(args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(
		w.must(append([]string{"run", w.name, "--", filepath.Join(filepath.Dir(w.porthole), "probe.exe")}, args...)...))
}

func (w *world) testErrors(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"create", w.name}, "is in use"},
		{[]string{"create", "Bad_Name"}, "use 1 to 15 characters"},
		{[]string{"create", "t1other", "--build", "14393"}, "20348"},
		{[]string{"create", "t1other", "--address", "10.99.0.1"}, "in use by the router"},
		{[]string{"create", "t1other", "--address", "192.0.2.1"}, "not one of a host"},
		{[]string{"create", "t1other", "--hns-profile", "ws1903"}, "ws2022-unkind"},
		{[]string{"create", "t1other", "--nic", "10.98.0.5"}, "such as 10.98.0.5/24"},
		{[]string{"create", "t1other", "--nic", "10.99.0.5/24"}, "overlaps with 10.99.0.0/24"},
		{[]string{"create", "t1other", "--dns", "10.99.0"}, "such as 10.99.0.53"},
		{[]string{"run", "t1nosuch", "--", "cmd"}, w.name},
		{[]string{"run", w.name, "--", `C:\nosuch.exe`}, "no such file"},
		{[]string{"run", w.name, "--", "./nosuch.exe"}, "no such file"},
		{[]string{"run", w.name, "--show", w.dir, "--", "cmd"}, "would cover what the host needs"},
		{[]string{"hns", "t1nosuch", "dump"}, "porthole host create t1nosuch"},
		{[]string{"hns", w.name, "dumb"}, "known are dump"},
		{[]string{"ctr", w.name, "tasks"}, "no container runtime"},
	} {
		out, errs, code := w.call("", tc.args...)
		if code == 0 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, tc.want) {
			t.Errorf("%v: exit code %d, output %q, errors %q; want one line with %q", tc.args, code, out, errs, tc.want)
		}
	}

	if platform.NetnsExists("porthole-t1other") {
		t.Error("a refused creation left a namespace")
	}
}

// testShownThroughLink: programs of the host have put a link where a folder is to be shown. It is not followed.
func (w *world) testShownThroughLink(t *testing.T) {
	dir, err := os.MkdirTemp("", "shown-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	boxTmp := filepath.Join(w.dir, "hosts", w.name, "tmp")
	if err := os.Symlink("/prefix", filepath.Join(boxTmp, filepath.Base(dir))); err != nil {
		t.Fatal(err)
	}

	for _, shown := range []string{dir, inner} {
		_, errs, code := w.call("", "run", w.name, "--show", shown, "--", "cmd", "/c", "exit")
		if code == 0 || !strings.Contains(errs, "is a link") {
			t.Errorf("%s: exit code %d, %s", shown, code, errs)
		}
	}
}

// testShownOver: a folder that is shown may lie over one that is shown already, or in one.
func (w *world) testShownOver(t *testing.T) {
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, shown := range [][]string{{inner, outer}, {outer, inner}} {
		_, errs, code := w.call("", "run", w.name, "--show", shown[0], "--show", shown[1], "--", "cmd", "/c", "exit")
		if code != 0 {
			t.Errorf("%s: exit code %d, %s", shown, code, errs)
		}
	}
}

// testEnded: whichever signal ends the command, the program ends with what it has started, and lets go of the caller's
// output.
func (w *world) testEnded(t *testing.T) {
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGKILL} {
		cmd := exec.Command(w.porthole, "host", "run", "--dir", w.dir, w.name, "--", "cmd", "/c", "ping -t 127.0.0.1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := make(chan string)
		go func() {
			defer close(lines)
			for scanner := bufio.NewScanner(out); scanner.Scan(); {
				lines <- scanner.Text()
			}
		}()

		limit := time.After(time.Minute)
		signalled, open := false, true
		for open {
			select {
			case line, more := <-lines:
				if open = more; strings.HasPrefix(line, "Reply from") && !signalled {
					signalled = true
					if err := cmd.Process.Signal(s); err != nil {
						t.Fatal(err)
					}
				}
			case <-limit:
				_ = cmd.Process.Kill()
				t.Fatalf("%v: the output is still held", s)
			}
		}
		err = cmd.Wait()
		if !signalled || err == nil || s != unix.SIGKILL && cmd.ProcessState.ExitCode() != 128+int(s) {
			t.Errorf("%v: signalled %v, %v", s, signalled, err)
		}
	}
}

// testUnkind makes a host with two more network cards and another HNS.
func (w *world) testUnkind(t *testing.T) {
	name := w.name + "u"
	w.must("create", name, "--runtime", "none", "--hns-profile", "ws2022-fresh", "--nic", "10.98.0.5/24", "--nic",
		"10.97.0.5/24,gateway=10.97.0.1,metric=10", "--dns", "none")
	defer w.must("delete", name)
	shown := w.must("run", name, "--", "ipconfig")
	for _, want := range []string{"Ethernet adapter Ethernet:", "Ethernet adapter Ethernet 2:", ": 10.98.0.5",
		"Ethernet adapter Ethernet 3:", ": 10.97.0.1"} {
		if !strings.Contains(shown, want) {
			t.Errorf("ipconfig does not show %q:\n%s", want, shown)
		}
	}

	w.must("hns", name, "dns", "10.99.0.53,10.99.0.54")
	if shown := w.must("run", name, "--", "ipconfig",
		"/all"); !regexp.MustCompile(`DNS Servers[ .]*: 10\.99\.0\.53\s+10\.99\.0\.54\s`).MatchString(shown) ||
		strings.Count(shown, "DNS Servers") != 3 {
		t.Errorf("ipconfig /all after the DNS servers came:\n%s", shown)
	}
	if _, errs, code := w.call("", "create", name+"2", "--nic", "10.98.0.5/24"); code == 0 ||
		!strings.Contains(errs, "10.98.0.5 is in use by host "+name) {
		t.Errorf("an address in use: exit code %d, %s", code, errs)
	}
	var dump struct{ Namespaces []any }
	if w.json(&dump, "hns", name, "dump"); len(dump.Namespaces) != 0 {
		t.Errorf("a fresh host has %v", dump.Namespaces)
	}
}

// wineClientError is a line of Wine's own, of a thread that asks wineserver while the program ends (docs/gaps.md).
var wineClientError = regexp.MustCompile(`wine client error:[0-9a-f]+: sendmsg: [^\n]*\n`)

func (w *world) testProgram(t *testing.T) {
	exe := filepath.Join(filepath.Dir(w.porthole), "probe.exe")
	out, errs, code := w.call("first\nsecond\n", "run", w.name, "--", exe, "echo", "a b", `c"d`, "--dir", "ü")
	errs = wineClientError.ReplaceAllString(errs, "")
	if out != "first\nsecond\n" || errs != `a b|c"d|--dir|ü` || code != 0 {
		t.Errorf("output %q, errors %q, exit code %d", out, errs, code)
	}
	if _, _, code := w.call("", "run", w.name, "--", exe, "exit", "37"); code != 37 {
		t.Errorf("exit code %d, want 37", code)
	}

	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "hosts", w.name, "prefix", "drive_c", "Probe.exe"), data,
		0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, code := w.call("", "run", w.name, "--", `c:\PROBE.exe`, "exit", "3"); code != 3 {
		t.Errorf("by its Windows path: exit code %d, want 3", code)
	}

	beside := filepath.Join(w.dir, "beside.exe") // its folder holds that of the host, and cannot be shown
	if err := os.WriteFile(beside, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := w.call("", "run", w.name, "--", beside, "exit", "4"); code != 4 {
		t.Errorf("beside the host's folder: exit code %d, want 4: %s", code, errs)
	}
	if out, _, _ := w.call("", "run", w.name, "--", "cmd", "/c",
		`mkdir \of-a-test && cd \of-a-test && cd`); strings.TrimSpace(out) != `C:\of-a-test` {
		t.Errorf("a path without a drive is %q, want it on C:", out)
	}
	if out, _, _ := w.call("", "run", w.name, "--", "cmd", "/c", "ver"); !strings.Contains(out, "20348") {
		t.Errorf("cmd /c ver: %q", out)
	}
}

// testNetwork makes a network with two pods and gives their network namespaces.
func (w *world) testNetwork(t *testing.T) (pods [2]string) {
	w.must("hns", w.name, "stats", "reset")
	w.probe("network", "hosttest", "10.244.201.0/24", "10.244.201.1")
	if got := w.probe("list"); got != "hosttest" {
		t.Fatalf("networks: %q", got)
	}
	for i := range pods {
		pods[i] = platform.NetnsPath("hns-" + strings.ToLower(w.probe("pod", "hosttest", podAddress(i))))
	}
	var stats struct{ Calls map[string]int }
	w.json(&stats, "hns", w.name, "stats")
	for name, want := range map[string]int{"HcnCreateNetwork": 1, "HcnCreateNamespace": 2, "HcnCreateEndpoint": 2,
		"HcnDeleteNetwork": 0} {
		if stats.Calls[name] != want {
			t.Errorf("%s was called %d times, want %d: %v", name, stats.Calls[name], want, stats.Calls)
		}
	}
	if out := w.must("hns", w.name, "dump"); !strings.Contains(out, "hosttest") ||
		!strings.Contains(out, podAddress(1)) {
		t.Errorf("dump:\n%s", out)
	}
	w.must("hns", w.name, "verify")
	return pods
}

func podAddress(i int) string { return fmt.Sprintf("10.244.201.%d", 3+i) }

func (w *world) json(into any, args ...string) {
	w.t.Helper()
	out := w.must(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		w.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// hnsd gives the process id of the host's HNS and how often it was started again.
func (w *world) hnsd() (pid, restarts int) {
	w.t.Helper()
	var hosts []struct {
		Name      string
		Processes []struct {
			Name          string
			PID, Restarts int
		}
	}
	w.json(&hosts, "list")
	for _, p := range hosts[0].Processes {
		if p.Name == "hnsd" {
			return p.PID, p.Restarts
		}
	}
	return 0, 0
}

// testKill kills HNS while one pod sends to the other, a numbered datagram each millisecond.
func (w *world) testKill(t *testing.T, pods [2]string) {
	before := w.must("hns", w.name, "dump", "-o", "json")
	pid, _ := w.hnsd()
	s := startStream(t, pods)
	s.waitFor(200)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatalf("killing HNS (pid %d): %v", pid, err)
	}
	wait.True(t, 15*time.Second, "another HNS", func() bool {
		now, restarts := w.hnsd()
		_, _, code := w.call("", "hns", w.name, "stats")
		return now != 0 && now != pid && restarts == 1 && code == 0
	})

	if after := w.must("hns", w.name, "dump", "-o", "json"); after != before {
		t.Errorf("state after the restart:\n%s\nbefore:\n%s", after, before)
	}
	w.must("hns", w.name, "verify")
	if got := w.probe("list"); got != "hosttest" {
		t.Errorf("networks after the restart: %q", got)
	}
	sent, received := s.stop()
	t.Logf("%d datagrams sent, %d received", sent, received)
	if received != sent {
		t.Errorf("%d of %d datagrams were lost", sent-received, sent)
	}
}

// stream sends numbered datagrams from pod 0 to pod 1 until it is stopped.
type stream struct {
	t        *testing.T
	conn     net.Conn
	listener net.PacketConn
	done     chan struct{}
	sender   sync.WaitGroup
	receiver sync.WaitGroup
	mu       sync.Mutex
	sent     int
	seen     map[uint64]bool
}

func startStream(t *testing.T, pods [2]string) *stream {
	s := &stream{t: t, done: make(chan struct{}), seen: map[uint64]bool{}}
	err := platform.InNetns(pods[1], func() (err error) {
		s.listener, err = net.ListenPacket("udp4", ":7000")
		return err
	})
	if err == nil {
		err = platform.InNetns(pods[0], func() (err error) {
			s.conn, err = net.Dial("udp4", podAddress(1)+":7000")
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.listener.Close(); s.conn.Close() })
	s.sender.Go(s.send)
	s.receiver.Go(s.receive)
	return s
}

func (s *stream) send() {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		number := uint64(s.sent)
		s.sent++
		s.mu.Unlock()
		if _, err := s.conn.Write(binary.BigEndian.AppendUint64(nil, number)); err != nil {
			s.t.Errorf("sending datagram %d: %v", number, err)
			return
		}
	}
}

func (s *stream) receive() {
	var buf [8]byte
	for {
		n, _, err := s.listener.ReadFrom(buf[:])
		if err != nil || n != len(buf) {
			return // stop closed it
		}
		s.mu.Lock()
		s.seen[binary.BigEndian.Uint64(buf[:])] = true
		s.mu.Unlock()
	}
}

func (s *stream) counts() (sent, received int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, len(s.seen)
}

func (s *stream) waitFor(count int) {
	s.t.Helper()
	wait.True(s.t, 15*time.Second, fmt.Sprintf("%d datagrams", count),
		func() bool { _, got := s.counts(); return got >= count })
}

// stop ends the stream and waits a moment for what is under way.
func (s *stream) stop() (sent, received int) {
	close(s.done)
	s.sender.Wait()
	_ = wait.For(s.t.Context(), 2*time.Second, "the last datagrams", func(context.Context) error {
		if sent, received = s.counts(); sent != received {
			return errors.New("some are under way")
		}
		return nil
	}) // the caller compares what is returned
	s.listener.Close()
	s.receiver.Wait()
	return s.counts()
}

// testDelete deletes the host and looks for anything that it left.
func (w *world) testDelete() {
	t := w.t
	w.must("delete", w.name)
	if _, _, code := w.call("", "delete", w.name); code == 0 {
		t.Error("deleting it again succeeds")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "hosts", w.name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(w.dir)) {
		t.Errorf("mounts are left: %v", err)
	}
	names, err := filepath.Glob(platform.NetnsDir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.Contains(n, w.name) {
			t.Errorf("namespace %s is left", n)
		}
	}

	if platform.NetnsExists(lab.Default.RouterNetns()) {
		err := platform.InNetns(platform.NetnsPath(lab.Default.RouterNetns()), func() error {
			_, err := net.InterfaceByName(w.name)
			return err
		})
		if err == nil {
			t.Error("its interface at the router is left")
		}
	}

	for _, p := range processesOf(t, w.dir) {
		t.Errorf("a process is left: %s", p)
	}
}

// processesOf finds processes that name dir in their command line or environment, this test's own aside.
func processesOf(t *testing.T, dir string) (found []string) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range entries {
		args, _ := os.ReadFile(p + "/cmdline") // gone meanwhile: nothing to find
		env, _ := os.ReadFile(p + "/environ")
		if bytes.Contains(args, []byte(dir)) || bytes.Contains(env, []byte("WINEPREFIX="+dir)) {
			found = append(found, fmt.Sprintf("%s %q", filepath.Base(p), args))
		}
	}
	return found
}

// testWaysOut has a program of the host, as those of HostProcess pods are, try each way out of the host that it knows.
func (w *world) testWaysOut(t *testing.T) {
	out, _, code := w.call("", "run", w.name, "--", filepath.Join(filepath.Dir(w.porthole), "escape.exe"),
		w.dir+"/hosts/another", w.dir+"/wine", w.dir+"/hosts/"+w.name+"/scm/database.json")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	testkit.NoWayOut(t, out)
}
