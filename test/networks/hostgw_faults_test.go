package networks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestHostGatewayFaults has what TestFaults does not do for every mode. After each fault the routes of Linux and
// Windows nodes are exactly those that they need, and the route of somebody else is untouched.
func TestHostGatewayFaults(t *testing.T) {
	long(t)
	f := faultTest{pathCheck{up(t, "host-gateway").fleet()}}
	for _, n := range nodeNames {
		f.ip(n, "route", "add", foreignRange, "via", router, "proto", "static")
	}
	f.exact("at the start")

	f.eachAgentKilled()
	f.routesTaken()
	f.cablesCut()
	f.startWithoutAPI()
	f.networkLost()
}

// ip runs `ip` on a node, as somebody else would. On an emulated Windows host the routes of its API are those of its
// namespace.
func (l *lab) ip(node string, args ...string) string {
	l.t.Helper()
	out, err := commandIn("porthole-"+node, shortly, "ip", args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// exact waits until the routes of every node are exactly those that it needs and the one of somebody else, and packets
// pass.
func (f faultTest) exact(what string) {
	f.t.Helper()
	started := time.Now()
	for _, n := range nodeNames {
		want := []string{foreignRange + " via " + router}
		for _, to := range nodeNames {
			if to != n && f.mode != "tor" { // whose nodes have none
				want = append(want, f.podCIDR(to)+" via "+f.nodes[to].String())
			}
		}
		slices.Sort(want)
		wait.NoError(f.t, 20*time.Second, what+": routes of "+n, func() error {
			if got := f.routesOn(n); !slices.Equal(got, want) {
				return fmt.Errorf("%s: the routes of %s are %q, want %q", what, n, got, want)
			}
			return nil
		})
	}
	f.t.Logf("%s: the routes of all nodes are right after %v", what, time.Since(started).Round(time.Millisecond))
	for _, n := range nodeNames {
		f.reaches(what, f.addr["b-"+n])
	}
}

// podCIDR returns the range of a node, by the address of a pod on it: unlike podRange also while the API is away.
func (f faultTest) podCIDR(node string) string {
	p, err := f.addr["a-"+node].Prefix(24)
	if err != nil {
		f.t.Fatal(err)
	}
	return p.String()
}

// routesOn returns the routes of a node through others, as "RANGE via ADDRESS", without the default route.
func (l *lab) routesOn(node string) []string {
	l.t.Helper()
	return slices.DeleteFunc(l.gatewaysOn(node), func(r string) bool { return strings.HasPrefix(r, "default ") })
}

// markedRange has a route through which monitor tests itself.
const markedRange = "192.0.2.0/24"

// monitor records the changes of a node's routes. It returns when a route of its own is among them. The function ends
// the record once the deletion of that route is there too, and returns the other changes of routes through gateways,
// one a line.
func (l *lab) monitor(node string) (stop func() string) {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "routes")
	out, err := os.Create(file)
	if err != nil {
		l.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("ip", "-o", "-4", "monitor", "route")
	cmd.Stdout = out
	if err := platform.StartInNetns(platform.NetnsPath("porthole-"+node), cmd); err != nil {
		l.t.Fatal(err)
	}
	end := sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	l.t.Cleanup(end)

	has := func(begin string) error {
		data, err := os.ReadFile(file)
		if err == nil && !strings.Contains("\n"+string(data), "\n"+begin+markedRange+" via ") {
			err = fmt.Errorf("the monitor of %s has not seen %s%s: %q", node, begin, markedRange, data)
		}
		return err
	}
	mtu := 1400
	wait.NoError(l.t, shortly, "the monitor of routes", func() error {
		mtu++ // until the monitor listens: the kernel does not report a route that is replaced by the same one
		l.ip(node, "route", "replace", markedRange, "via", router, "mtu", strconv.Itoa(mtu))
		return has("")
	})

	return func() string {
		l.t.Helper()
		l.ip(node, "route", "del", markedRange)
		wait.NoError(l.t, shortly, "the monitor of routes", func() error { return has("Deleted ") })
		end()
		data, err := os.ReadFile(file)
		if err != nil {
			l.t.Fatal(err)
		}
		var changes strings.Builder
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, " via ") && !strings.Contains(line, markedRange) {
				changes.WriteString(line)
			}
		}
		return changes.String()
	}
}

// traffic sends packets between pods of all nodes. stop ends it and fails the test for each that was lost.
func (f faultTest) traffic(what string) (stop func()) {
	var sent, lost atomic.Int64
	var end atomic.Bool
	var wg sync.WaitGroup

	for _, from := range nodeNames {
		for _, to := range nodeNames {
			if from == to {
				continue
			}
			wg.Go(func() {
				tick := time.NewTicker(10 * time.Millisecond) // other tests share this machine
				defer tick.Stop()
				for ; !end.Load(); <-tick.C {
					if err := ping(f.netns["a-"+from], f.addr["a-"+to], probe{}).err(); err != nil {
						lost.Add(1)
						f.t.Errorf("%s: from a pod on %s to one on %s: %v", what, from, to, err)
					}
					sent.Add(1)
				}
			})
		}
	}

	return func() {
		f.t.Helper()
		wait.True(f.t, time.Minute, what+": a thousand packets", func() bool { return sent.Load() >= 1000 })
		end.Store(true)
		wg.Wait()
		f.t.Logf("%s: %d packets sent, %d lost", what, sent.Load(), lost.Load())
	}
}

// eachAgentKilled kills the agent of one node after the other, which starts again as after an upgrade: no packet is
// lost, and nothing is written.
func (f faultTest) eachAgentKilled() {
	f.t.Helper()
	stop := f.traffic("agents killed")
	for _, n := range nodeNames {
		changes := f.monitor(n)
		if n != "lin01" {
			f.hnsOf(n, "stats", "reset")
		}
		f.complete(n, f.kill(n))
		if got := changes(); got != "" {
			f.t.Errorf("the routes of %s started again, and changed:\n%s", n, got)
		}
		if n != "lin01" {
			f.noWrites(n)
		}
	}
	stop()
	f.exact("agents killed")
}

// noWrites checks that nobody has changed networks, or made endpoints, in HNS of a node since its statistics were
// reset. Pods that are being deleted take their endpoints away.
func (l *lab) noWrites(node string) {
	l.t.Helper()
	writes := []string{"HcnCreateNetwork", "HcnModifyNetwork", "HcnDeleteNetwork", "HcnCreateEndpoint"}
	for line := range strings.Lines(l.hnsOf(node, "stats")) {
		if w := strings.Fields(line); len(w) > 0 && slices.Contains(writes, w[0]) {
			l.t.Errorf("the routes of %s started again, and wrote: %s", node, line)
		}
	}
}

// routesTaken deletes all routes of every node, and overwrites one with a wrong next hop.
func (f faultTest) routesTaken() {
	f.t.Helper()
	for _, n := range nodeNames {
		for _, to := range nodeNames {
			if to != n {
				f.ip(n, "route", "del", f.podCIDR(to))
			}
		}
	}
	f.exact("all routes deleted")

	f.ip("lin01", "route", "replace", f.podCIDR("win01"), "via", router)
	f.ip("win01", "route", "replace", f.podCIDR("win02"), "via", router)
	f.ip("win02", "route", "add", f.podCIDR("lin01"), "via", router, "metric", "5")
	f.warned("RouteDoubtful", []string{"win02"}, "somebody else's route to "+f.podCIDR("lin01")+" through "+router)
	f.ip("win02", "route", "del", f.podCIDR("lin01"), "via", router)
	f.exact("wrong next hops")
}

// cablesCut cuts the cable of a Linux and a Windows node for 10 s.
func (f faultTest) cablesCut() {
	f.t.Helper()
	for _, n := range []string{"lin01", "win01"} {
		port := f.portOf(n)
		if _, err := commandIn("porthole-tor", shortly, "ip", "link", "set", port, "down"); err != nil {
			f.t.Fatal(err)
		}
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
			if err := ping(f.netns["a-win02"], f.addr["a-"+n], probe{}).err(); err == nil {
				f.t.Fatalf("packets reach %s without its cable", n)
			}
		}
		if _, err := commandIn("porthole-tor", shortly, "ip", "link", "set", port, "up"); err != nil {
			f.t.Fatal(err)
		}
		f.exact("cable of " + n + " cut for 10 s")
	}
}

// portOf returns the port of the router's switch to which a node is connected.
func (l *lab) portOf(node string) string {
	l.t.Helper()
	mac := macOf(l.t, node)
	out, err := commandIn("porthole-tor", shortly, "bridge", "fdb", "show", "br", "sw0")
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if w := strings.Fields(line); len(w) > 2 && w[0] == mac && w[1] == "dev" {
			return w[2]
		}
	}
	l.t.Fatalf("no port of the switch has learnt %s of %s:\n%s", mac, node, out)
	return ""
}

// startWithoutAPI stops the control plane for a minute, and kills the agent of win01. The next agent changes nothing,
// no packet is lost, and a route that somebody deletes comes back.
func (f faultTest) startWithoutAPI() {
	f.t.Helper()
	agent, err := routesOf("win01")
	if err != nil {
		f.t.Fatal(err)
	}
	thaw := f.freeze("controlplane")

	stop := f.traffic("API server away")
	changes := f.monitor("win01")
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	<-time.After(time.Minute) // longer than nodes are waited for before they count as gone
	if got := changes(); got != "" {
		f.t.Errorf("an agent that started without the API server changed:\n%s", got)
	}
	stop()

	f.ip("lin01", "route", "del", f.podCIDR("win01"))
	f.ip("win02", "route", "del", f.podCIDR("win01"))
	f.exact("API server away")
	thaw()
	f.complete("win01", agent)
	f.exact("API server back")
}

// networkLost lets HNS lose the network of win01 again and again, and kills the agent at each step of making it anew;
// the last time HNS stops meanwhile. Every table is as before, and pods that are started afterwards reach those of
// other nodes. It returns the pods of then.
func (f faultTest) networkLost() faultTest {
	f.t.Helper()
	before := f.tables()
	for _, function := range []string{"HcnCreateNetwork", "HcnCreateEndpoint", "HcnModifyNamespace"} {
		f.killDuring("win01", function, 1)
	}
	f.hnsOf("win01", "service", "stopped")
	pid := f.kill("win01")
	f.hnsOf("win01", "service", "running", "lose=Network")
	f.complete("win01", pid)

	wait.NoError(f.t, 60*time.Second, "every table to be as before", func() error {
		if now := f.tables(); now != before {
			return fmt.Errorf("have\n%s\nwant\n%s", now, before)
		}
		return f.healthy()
	})
	if n := strings.Count(f.hnsOf("win01", "dump", "-o", "json"), `"Name": "porthole"`); n != 1 {
		f.t.Errorf("HNS of win01 has %d networks, want 1", n)
	}
	if _, err := kubectl("delete", "pod", "a-win01", "b-win01", "--grace-period=0", "--force"); err != nil {
		f.t.Fatal(err)
	}
	again := faultTest{pathCheck{f.lab.fleet()}}
	again.exact("network lost and made anew")
	again.reach("network lost and made anew", "win01")
	return again
}
