package tor

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/routers"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/table"
)

// rack is a router with two nodes on its segment, each with the address of a pod, and a router's program on it.
type rack struct {
	*testing.T
	tor, one *netspace.Space
	router   *routers.Router
	wanted   []table.Wanted
	format   string                 // of what show prints
	show     func() (string, error) // what the router's program has
}

const (
	firstPod  = "10.244.1.7"
	secondPod = "10.244.2.7"
)

// newRack makes the rack. The caller sets router.
func newRack(t *testing.T) *rack {
	t.Helper()
	r := &rack{T: t, tor: netspace.New(t, "tor"), one: netspace.New(t, "n1")}
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
	r.wanted = Wanted([]table.Node{node("one", "10.99.0.11", "10.244.1.0/24"),
		node("two", "10.99.0.12", "10.244.2.0/24")}, table.Cluster{})
	return r
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
		format, show = "ip", func() (string, error) { return r.run("ip", "-j", "route") }
	}
	wait.NoError(r, 10*time.Second, what, func() error {
		text, err := show()
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

func (r *rack) must(_ string, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// frr starts zebra and staticd with what Export prints as staticd's whole configuration.
func (r *rack) frr() {
	r.Helper()
	text, err := Export("frr", r.wanted)
	if err != nil {
		r.Fatal(err)
	}
	r.router.Daemon("zebra", "")
	r.router.Daemon("staticd", text)
}

// TestFRR: FRR's staticd works with what is printed. A line that is missing or wrong, a second next hop and a stale
// route are named by node and range; zebra killed leaves the routes, zebra stopped takes them away, and the check
// tells.
// Row 1.43.
func TestFRR(t *testing.T) {
	r := newRack(t)
	r.router = routers.FRR(t, r.tor.Path)
	vtysh := func(commands ...string) {
		t.Helper()
		r.must(r.router.Vtysh(append([]string{"conf t"}, commands...)...))
	}
	r.format, r.show = "frr", func() (string, error) { return r.router.Vtysh("show ip route json") }
	r.frr()
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

	r.router.End("zebra", syscall.SIGKILL)
	r.sees("zebra killed", true)
	r.carries("zebra killed")
	r.router.End("staticd", syscall.SIGKILL)
	r.frr()
	r.sees("both started again", false)

	r.router.End("zebra", syscall.SIGTERM)
	r.sees("zebra stopped", true, noFirst, noSecond)
	r.router.End("staticd", syscall.SIGTERM)
	started := time.Now()
	r.frr()
	r.sees("started once more", true)
	r.carries("started once more")
	t.Logf("routes are back %v after the start", time.Since(started).Round(time.Millisecond))
}

// TestBIRD is the same with BIRD.
func TestBIRD(t *testing.T) {
	r := newRack(t)
	const base = "router id 10.99.0.1;\nprotocol device {}\nprotocol kernel { ipv4 { export all; }; }\n"
	printed, err := Export("bird", r.wanted)
	if err != nil {
		t.Fatal(err)
	}
	r.router = routers.BIRD(t, r.tor.Path, base+printed)
	configure := func(text string) {
		t.Helper()
		r.router.File("bird.conf", base+text)
		r.must(r.router.Birdc("configure"))
	}
	r.format, r.show = "bird", func() (string, error) { return r.router.Birdc("show", "route") }

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

	r.router.End("bird", syscall.SIGKILL)
	r.sees("BIRD killed", true)
	r.carries("BIRD killed")
	r.router.StartBIRD()
	r.sees("BIRD started again", false)
}
