package bgp

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// long skips the test, which takes minutes, unless PORTHOLE_NETWORKS is "long".
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("PORTHOLE_NETWORKS") != "long" {
		t.Skip("takes long: PORTHOLE_NETWORKS=long, or `make test-networks`")
	}
}

// switchPort takes the port of a node out of the switch, or puts it back. Both ends of the link stay up.
func (r *rack) switchPort(i int, in bool) {
	r.t.Helper()
	r.in(r.sw, func() error {
		if in {
			return platform.JoinBridge(hosts[i].name, "sw0")
		}
		link, err := netlink.LinkByName(hosts[i].name)
		if err != nil {
			return err
		}
		return netlink.LinkSetNoMaster(link)
	})
}

// TestCutLink cuts a node off without BFD: the hold time decides, and everything is right again after the link is back.
func TestCutLink(t *testing.T) {
	long(t)
	f := newFaulty(t)
	f.switchPort(2, false)
	t.Logf("the route to the node is gone after %v",
		f.wantRoutes(0, 15*time.Second, direct(0)[0]).Round(time.Millisecond))
	f.wantRoutes(2, 15*time.Second)
	f.switchPort(2, true)
	began := time.Now()
	f.complete(30 * time.Second)
	t.Logf("right again %v after the link is back", time.Since(began).Round(time.Millisecond))
	f.reach()
}

// TestRouterRestart kills the router's bgpd and starts it again, and stops it politely.
func TestRouterRestart(t *testing.T) {
	long(t)
	f := newFaulty(t)
	for _, end := range []func(){func() { f.frr.End("bgpd", syscall.SIGKILL) },
		func() { vtysh(f.frr, "conf t", "no router bgp 64500") }} {
		end()
		for i := range hosts {
			wait.NoError(t, 10*time.Second, "the loss of the session to be seen", func() error {
				if f.agents[i].status().Complete() {
					return fmt.Errorf("%s is complete", hosts[i].name)
				}
				return nil
			})
		}
		f.frr.End("bgpd", syscall.SIGKILL)
		f.frr.Again("bgpd")
		began := time.Now()
		f.complete(20 * time.Second)
		took := time.Since(began)
		t.Logf("right again %v after bgpd was started", took.Round(time.Millisecond))
		if took > 10*time.Second {
			t.Errorf("that took %v", took)
		}
		f.reach()
	}
}

// TestKilledAtEachStep ends the first agent after each number of changes. The next one comes to the same end.
func TestKilledAtEachStep(t *testing.T) {
	long(t)
	f := newFaulty(t)
	for steps := 1; steps <= 5; steps++ {
		f.agents[0].kill()
		for _, route := range f.routes(f.host[0].Path) { // as after a reboot, so that there is something to do
			dst, _, _ := strings.Cut(route, " ")
			f.in(f.host[0], func() error {
				return netlink.RouteDel(&netlink.Route{Dst: mustNet(dst)})
			})
		}
		t.Setenv(dieAfter, strconv.Itoa(steps))
		f.agents[0].start()
		if err := f.agents[0].cmd.Wait(); err == nil {
			t.Fatalf("the agent was not killed after %d changes", steps)
		}
		f.agents[0].cmd = nil
		t.Setenv(dieAfter, "")
		f.agents[0].start()
		f.complete(20 * time.Second)
		f.wantRoutes(0, 5*time.Second, direct(0)...)
	}
	f.reach()
}
