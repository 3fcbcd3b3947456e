package tor

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
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
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/table"
)

// rack is a router with two nodes on its segment, each with the address of a pod, and a router's program on it.
type rack struct {
	*testing.T
	tor, one *netspace.Space
	dir      string
	wanted   []table.Wanted
	format   string // of what show prints
	show     []string
}

const (
	firstPod  = "10.244.1.7"
	secondPod = "10.244.2.7"
)

// newRack makes the rack for a program that runs as a user, to whom its folder belongs.
func newRack(t *testing.T, program, owner string) *rack {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%s is missing: make deps", program)
	}
	r := &rack{T: t, tor: netspace.New(t, "tor"), one: netspace.New(t, "n1"), dir: t.TempDir()}
	two := netspace.New(t, "n2")
	r.one.Connect("eth0", r.tor, "n1")
	two.Connect("eth0", r.tor, "n2")
	r.tor.Bridge("sw0", "n1", "n2")
	r.tor.Address("sw0", "10.99.0.1/24")
	r.tor.Forward()
	r.tor.Sysctls(map[string]string{"net/ipv4/conf/all/send_redirects": "0", "net/ipv4/conf/sw0/send_redirects": "0"})
	r.one.Address("eth0", "10.99.0.11/24")
	r.one.Address("lo", firstPod+"/32")
	r.one.Route("0.0.0.0/0", "10.99.0.1")
	two.Address("eth0", "10.99.0.12/24")
	two.Address("lo", secondPod+"/32")
	two.Route("0.0.0.0/0", "10.99.0.1")

	two.Do(func() error {
		l, err := net.Listen("tcp", secondPod+":80")
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	r.wanted = Wanted([]table.Node{node("one", "10.99.0.11", "10.244.1.0/24"), node("two", "10.99.0.12", "10.244.2.0/24")})
	if owner != "" {
		u, err := user.Lookup(owner)
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		for d := r.dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) { // whoever it belongs to may pass
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(r.dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// start runs a program on the router until stop is called with the signal that ends it, at the latest when the test ends.
func (r *rack) start(name string, args ...string) (stop func(syscall.Signal)) {
	r.Helper()
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	if err := platform.StartInNetns(r.tor.Path, cmd); err != nil {
		r.Fatal(err)
	}

	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	stop = func(s syscall.Signal) {
		cmd.Process.Signal(s)
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-done
		}
	}

	r.Cleanup(func() {
		stop(syscall.SIGKILL)
		if r.Failed() {
			r.Logf("%s: %s", name, out.String())
		}
	})
	return stop
}

// run runs a program on the router to its end and returns what it printed.
func (r *rack) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	err := platform.StartInNetns(r.tor.Path, cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%v: %w: %s%s", args, err, errs.String(), out.String())
	}
	return out.String(), err
}

// sees waits until Check says exactly these lines about what the program, or with kernel the router's kernel, prints.
func (r *rack) sees(what string, kernel bool, want ...string) {
	r.Helper()
	format, show := r.format, r.show
	if kernel {
		format, show = "ip", []string{"ip", "-j", "route"}
	}
	wait.NoError(r, 10*time.Second, what, func() error {
		text, err := r.run(show...)
		if err != nil {
			return err
		}
		running, err := ReadRunning(format, strings.NewReader(text))
		if err != nil {
			return fmt.Errorf("%w\n%s", err, text)
		}
		got := Check(r.wanted, running, []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")})
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			return fmt.Errorf("%s: the check says %q, want %q, about\n%s", what, got, want, text)
		}
		return nil
	})
}

// carries waits until a connection from the first pod to the second works.
func (r *rack) carries(what string) {
	r.Helper()
	wait.NoError(r, 10*time.Second, what, r.dial)
}

func (r *rack) dial() error {
	return platform.InNetns(r.one.Path, func() error {
		d := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(firstPod)}}
		c, err := d.Dial("tcp", secondPod+":80")
		if err == nil {
			c.Close()
		}
		return err
	})
}

func (r *rack) write(name, text string) string {
	r.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
	return path
}

func (r *rack) must(_ string, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

const frrFolder = "/usr/lib/frr/"

// frr starts zebra and staticd with what Export prints as staticd's whole configuration.
func (r *rack) frr() (stopZebra, stopStatic func(syscall.Signal)) {
	r.Helper()
	text, err := Export("frr", r.wanted)
	if err != nil {
		r.Fatal(err)
	}
	common := []string{"--vty_socket", r.dir, "-z", filepath.Join(r.dir, "zserv.api"), "-P", "0"}
	stopZebra = r.start(frrFolder+"zebra", append(common, "-i", filepath.Join(r.dir, "zebra.pid"), "-f", r.write("zebra.conf", ""))...)
	wait.NoError(r, 10*time.Second, "zebra", func() error { _, err := os.Stat(filepath.Join(r.dir, "zserv.api")); return err })
	stopStatic = r.start(frrFolder+"staticd", append(common, "-i", filepath.Join(r.dir, "staticd.pid"), "-f", r.write("staticd.conf", text))...)
	return stopZebra, stopStatic
}

// TestFRR: FRR's staticd works with what is printed. A line that is missing or wrong, a second next hop and a stale route are named by
// node and range; zebra killed leaves the routes, zebra stopped takes them away, and the check tells.
func TestFRR(t *testing.T) {
	r := newRack(t, frrFolder+"staticd", "frr")
	vtysh := func(commands ...string) {
		t.Helper()
		args := []string{"vtysh", "--vty_socket", r.dir, "-c", "conf t"}
		for _, c := range commands {
			args = append(args, "-c", c)
		}
		r.must(r.run(args...))
	}
	r.format, r.show = "frr", []string{"vtysh", "--vty_socket", r.dir, "-c", "show ip route json"}
	stopZebra, stopStatic := r.frr()
	r.sees("printed routes", false)
	r.sees("printed routes in the kernel", true)
	r.carries("printed routes")

	vtysh("no ip route 10.244.2.0/24 10.99.0.12")
	r.sees("a missing line", false, noSecond)
	if err := r.dial(); err == nil {
		t.Error("packets pass without the route")
	}
	vtysh("ip route 10.244.2.0/24 10.99.0.11")
	r.sees("a wrong line", false, wrongHop)
	vtysh("ip route 10.244.2.0/24 10.99.0.12", "ip route 10.244.9.0/24 10.99.0.12")
	r.sees("two next hops and a stale route", false, secondHop, stalePlace)
	r.sees("the same in the kernel", true, secondHop, stalePlace)
	vtysh("no ip route 10.244.2.0/24 10.99.0.11", "no ip route 10.244.9.0/24 10.99.0.12")
	r.sees("the cure", false)

	stopZebra(syscall.SIGKILL)
	r.sees("zebra killed", true)
	r.carries("zebra killed")
	stopStatic(syscall.SIGKILL)
	if err := os.Remove(filepath.Join(r.dir, "zserv.api")); err != nil {
		t.Fatal(err)
	}
	stopZebra, stopStatic = r.frr()
	r.sees("both started again", false)

	stopZebra(syscall.SIGTERM)
	r.sees("zebra stopped", true, noFirst, noSecond)
	stopStatic(syscall.SIGTERM)
	os.Remove(filepath.Join(r.dir, "zserv.api"))
	started := time.Now()
	r.frr()
	r.sees("started once more", true)
	r.carries("started once more")
	t.Logf("routes are back %v after the start", time.Since(started).Round(time.Millisecond))
}

// TestBIRD is the same with BIRD.
func TestBIRD(t *testing.T) {
	r := newRack(t, "/usr/sbin/bird", "")
	control := filepath.Join(r.dir, "ctl")
	const base = "router id 10.99.0.1;\nprotocol device {}\nprotocol kernel { ipv4 { export all; }; }\n"
	printed, err := Export("bird", r.wanted)
	if err != nil {
		t.Fatal(err)
	}
	conf := r.write("bird.conf", base+printed)
	configure := func(text string) {
		t.Helper()
		r.write("bird.conf", base+text)
		r.must(r.run("/usr/sbin/birdc", "-s", control, "configure"))
	}

	r.format, r.show = "bird", []string{"/usr/sbin/birdc", "-s", control, "show", "route"}
	run := func() func(syscall.Signal) {
		return r.start("/usr/sbin/bird", "-f", "-c", conf, "-s", control, "-P", filepath.Join(r.dir, "pid"))
	}
	stop := run()
	r.sees("printed routes", false)
	r.sees("printed routes in the kernel", true)
	r.carries("printed routes")

	line := "\troute 10.244.2.0/24 via 10.99.0.12; # two\n"
	configure(strings.Replace(printed, line, "", 1))
	r.sees("a missing line", false, noSecond)
	configure(strings.Replace(printed, "via 10.99.0.12", "via 10.99.0.11", 1))
	r.sees("a wrong line", false, wrongHop)
	configure(strings.Replace(printed, "via 10.99.0.12", "via 10.99.0.12 via 10.99.0.11", 1))
	r.sees("two next hops", false, secondHop)
	r.sees("two next hops in the kernel", true, secondHop)
	configure(printed)
	r.sees("the cure", false)

	stop(syscall.SIGKILL)
	r.sees("BIRD killed", true)
	r.carries("BIRD killed")
	os.Remove(control)
	run()
	r.sees("BIRD started again", false)
}
