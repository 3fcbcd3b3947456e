package routers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// FRRFolder is where Debian's FRR has its daemons.
const FRRFolder = "/usr/lib/frr"

// limit bounds the start and the polite end of a daemon.
const limit = 10 * time.Second

// Router is one router. Its daemons end with the test.
type Router struct {
	// T is the test that failures belong to. A test with subtests changes it.
	T testing.TB
	// Dir belongs to the user that the daemons become.
	Dir string

	netns   string
	daemons map[string]*daemon
}

// daemon is one program of a router; out is what it prints.
type daemon struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

// FRR returns a router without daemons in the network namespace at path, or skips the test where FRR is not installed.
// Daemon starts them.
func FRR(t testing.TB, netns string) *Router {
	t.Helper()
	if _, err := os.Stat(FRRFolder + "/bgpd"); err != nil {
		t.Skip("FRR is not installed: make deps")
	}
	return newRouter(t, netns, "frr")
}

// BIRD starts BIRD with this configuration, likewise.
func BIRD(t testing.TB, netns, config string) *Router {
	t.Helper()
	if _, err := exec.LookPath("bird"); err != nil {
		t.Skip("BIRD is not installed: make deps")
	}
	r := newRouter(t, netns, "root")
	r.File("bird.conf", config)
	r.StartBIRD()
	return r
}

// newRouter makes a folder for a router that runs in netns as the user owner. The test is skipped
// if there is no such user.
func newRouter(t testing.TB, netns, owner string) *Router {
	t.Helper()
	dir, err := os.MkdirTemp("", "phrouter") // short: the paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	u, err := user.Lookup(owner)
	if err != nil {
		t.Skipf("no user %s: install the packages that `make deps` installs", owner)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}

	r := &Router{T: t, Dir: dir, netns: netns, daemons: map[string]*daemon{}}
	t.Cleanup(func() {
		for name, d := range r.daemons {
			r.End(name, syscall.SIGKILL)
			if t.Failed() && d.out.Len() > 0 {
				t.Logf("%s: %s", name, d.out.String())
			}
		}
	})
	return r
}

// File writes a file of the folder.
func (r *Router) File(name, text string) {
	r.T.Helper()
	if err := os.WriteFile(filepath.Join(r.Dir, name), []byte(text), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

// Daemon starts a daemon of FRR with this configuration, and waits until its terminal can be reached. zebra comes
// first.
func (r *Router) Daemon(name, config string) {
	r.T.Helper()
	r.File(name+".conf", config)
	r.Again(name)
}

// Again starts a daemon of FRR with the configuration that it had.
func (r *Router) Again(name string) {
	r.T.Helper()
	args := []string{"--vty_socket", r.Dir, "-z", r.Dir + "/zserv.api", "-i", r.Dir + "/" + name + ".pid", "-f",
		r.Dir + "/" + name + ".conf",
		"-P", "0", "--log", "stdout"} // no TCP port for its terminal
	if name == "bfdd" {
		args = append(args, "--bfdctl", r.Dir+"/bfdd.sock")
	}
	r.start(name, name+".vty", exec.Command(FRRFolder+"/"+name, args...))
}

// StartBIRD starts BIRD with bird.conf of the folder.
func (r *Router) StartBIRD() {
	r.T.Helper()
	r.start("bird", "bird.ctl",
		exec.Command("bird", "-f", "-c", r.Dir+"/bird.conf", "-s", r.Dir+"/bird.ctl", "-P", r.Dir+"/bird.pid"))
}

// start starts a daemon and waits until its socket is there.
func (r *Router) start(name, socket string, cmd *exec.Cmd) {
	r.T.Helper()
	for _, left := range []string{socket, leftBehind[name]} { // by one that was killed
		if left != "" {
			os.Remove(filepath.Join(r.Dir, left))
		}
	}
	d := &daemon{cmd: cmd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout = &d.out
	cmd.Stderr = &d.out
	cmd.WaitDelay = time.Second
	if err := platform.StartInNetns(r.netns, cmd); err != nil {
		r.T.Fatal(err)
	}
	r.daemons[name] = d
	wait.NoError(r.T, limit, name, func() error { _, err := os.Stat(filepath.Join(r.Dir, socket)); return err })
}

// leftBehind are further sockets that a killed daemon leaves behind.
var leftBehind = map[string]string{"zebra": "zserv.api"}

// Runs reports whether a daemon was started and not ended.
func (r *Router) Runs(name string) bool { return r.daemons[name] != nil }

// End ends a daemon by a signal, and kills it if that takes too long.
func (r *Router) End(name string, s syscall.Signal) {
	d := r.daemons[name]
	if d == nil {
		return
	}
	delete(r.daemons, name)
	d.cmd.Process.Signal(s)
	slow := time.AfterFunc(limit, func() { d.cmd.Process.Kill() })
	_ = d.cmd.Wait() // it was asked to end
	slow.Stop()
}

// Vtysh runs commands at the terminal of FRR and returns what they print.
func (r *Router) Vtysh(commands ...string) (string, error) {
	args := []string{"--vty_socket", r.Dir}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	return run("vtysh", args...)
}

// Birdc runs a command at the terminal of BIRD, likewise.
func (r *Router) Birdc(command ...string) (string, error) {
	return run("birdc", append([]string{"-s", r.Dir + "/bird.ctl"}, command...)...)
}

func run(name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %q: %w: %s%s", name, args, err, errs.String(), out.String())
	}
	return out.String(), nil
}
