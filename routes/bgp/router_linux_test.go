package bgp

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

const frrFolder = "/usr/lib/frr"

// router is FRR or BIRD in a network namespace. Its daemons are children of the test, and its files and sockets in a folder of its
// own, which belongs to the user that the daemons become.
type router struct {
	t         *testing.T
	dir, path string
	daemons   map[string]*exec.Cmd
}

func newRouter(t *testing.T, path, owner string) *router {
	t.Helper()
	dir, err := os.MkdirTemp("", "phbgp")
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

	r := &router{t: t, dir: dir, path: path, daemons: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		for name := range r.daemons {
			r.kill(name)
		}
	})
	return r
}

// frr starts zebra, bgpd and, if withBFD, bfdd with this configuration of bgpd.
func frr(t *testing.T, path, config string, withBFD bool) *router {
	t.Helper()
	if _, err := os.Stat(frrFolder + "/bgpd"); err != nil {
		t.Skip("FRR is not installed: make deps")
	}
	r := newRouter(t, path, "frr")
	r.file("zebra.conf", "")
	r.file("bfdd.conf", "")
	r.file("bgpd.conf", config)
	r.daemon("zebra")
	r.waitFor("zebra.vty")
	if withBFD {
		r.daemon("bfdd")
		r.waitFor("bfdd.vty")
	}
	r.daemon("bgpd")
	r.waitFor("bgpd.vty")
	return r
}

func (r *router) file(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// daemon starts a daemon of FRR. Without a TCP port for its terminal it can run beside others.
func (r *router) daemon(name string) {
	r.t.Helper()
	args := []string{"--vty_socket", r.dir, "-z", r.dir + "/zserv.api", "-i", r.dir + "/" + name + ".pid", "-f", r.dir + "/" + name + ".conf", "-P", "0", "--log", "file:" + r.dir + "/" + name + ".log"}
	if name == "bfdd" {
		args = append(args, "--bfdctl", r.dir+"/bfdd.sock")
	}
	r.start(name, exec.Command(frrFolder+"/"+name, args...))
}

func (r *router) start(name string, cmd *exec.Cmd) {
	r.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := platform.StartInNetns(r.path, cmd); err != nil {
		r.t.Fatal(err)
	}
	r.daemons[name] = cmd
}

func (r *router) waitFor(file string) {
	r.t.Helper()
	wait.NoError(r.t, 10*time.Second, file, func() error { _, err := os.Stat(filepath.Join(r.dir, file)); return err })
}

// kill ends a daemon at once.
func (r *router) kill(name string) { r.end(name, syscall.SIGKILL) }

func (r *router) end(name string, s syscall.Signal) {
	if cmd := r.daemons[name]; cmd != nil {
		cmd.Process.Signal(s)
		cmd.Wait()
		delete(r.daemons, name)
	}
	os.Remove(filepath.Join(r.dir, name+".vty"))
}

// do runs commands of FRR's terminal and returns what they print.
func (r *router) do(commands ...string) string {
	r.t.Helper()
	args := []string{"--vty_socket", r.dir}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	out, err := exec.Command("vtysh", args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("vtysh %q: %v: %s", commands, err, out)
	}
	return string(out)
}

// bird starts BIRD with this configuration.
func bird(t *testing.T, path, config string) *router {
	t.Helper()
	if _, err := exec.LookPath("bird"); err != nil {
		t.Skip("BIRD is not installed: make deps")
	}
	r := newRouter(t, path, "root")
	r.file("bird.conf", config)
	r.start("bird", exec.Command("bird", "-f", "-c", r.dir+"/bird.conf", "-s", r.dir+"/bird.ctl", "-P", r.dir+"/bird.pid"))
	r.waitFor("bird.ctl")
	return r
}

// frrRouter returns bgpd's configuration of a router whose neighbours are the nodes. asOf returns the AS of the node of an index.
func frrRouter(as int, asOf func(int) int, each ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n timers bgp 3 9\n bgp graceful-restart restart-time 30\n", as, torAddr)
	for i, h := range hosts {
		fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %s timers connect 1\n", h.addr, asOf(i), h.addr)
		for _, line := range each {
			fmt.Fprintf(&b, " neighbor %s %s\n", h.addr, line)
		}
	}
	return b.String()
}
