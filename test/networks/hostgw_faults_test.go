package networks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestHostGatewayFaults: what happens to agents, routes, links, HNS and the API server leaves the routes of Linux and Windows nodes as they
// should be, and routes of others alone.
func TestHostGatewayFaults(t *testing.T) {
	long(t)
	f := faults{up(t, "host-gateway").fleet()}
	for _, n := range nodeNames {
		f.ip(n, "route", "add", foreignRange, "via", router)
	}
	f.exact("at the start")

	f.agentsKilled()
	f.secondAgent()
	f.routesTaken()
	f.linkCut()
	f.apiAway()
	f.networkLost()
}

// faults is a fleet whose nodes have disturbed networks.
type faults struct{ *fleet }

// foreignRange has a route of somebody else on every node.
const foreignRange = "172.31.0.0/24"

// ip runs `ip` on a node, as somebody else would. On an emulated Windows host the routes of its API are those of its namespace.
func (l *lab) ip(node string, args ...string) string {
	l.t.Helper()
	out, err := commandIn("porthole-"+node, shortly, "ip", args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// exact waits until the routes of every node are exactly those that it needs and the one of somebody else, and packets pass.
func (f faults) exact(what string) {
	f.t.Helper()
	started := time.Now()
	for _, n := range nodeNames {
		want := []string{foreignRange + " via " + router}
		for _, to := range nodeNames {
			if to != n {
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

// podCIDR returns the range of a node, by the address of a pod on it.
func (f faults) podCIDR(node string) string {
	p, err := f.addr["a-"+node].Prefix(24)
	if err != nil {
		f.t.Fatal(err)
	}
	return p.String()
}

// routesOn returns the routes of a node through others, as "RANGE via ADDRESS", without the default route.
func (l *lab) routesOn(node string) (list []string) {
	for line := range strings.Lines(l.ip(node, "route", "show")) {
		if w := strings.Fields(line); len(w) > 2 && w[1] == "via" && w[0] != "default" {
			list = append(list, strings.Join(w[:3], " "))
		}
	}
	slices.Sort(list)
	return list
}

// monitor returns a function that ends the watch and returns the changes of a node's routes meanwhile.
func (l *lab) monitor(node string) (stop func() string) {
	l.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("ip", "-o", "-4", "monitor", "route")
	cmd.Stdout, cmd.WaitDelay = &out, time.Second
	if err := platform.StartInNetns(platform.NetnsPath("porthole-"+node), cmd); err != nil {
		l.t.Fatal(err)
	}
	stop = sync.OnceValue(func() string {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		var changes strings.Builder
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, " via ") {
				changes.WriteString(line)
			}
		}
		return changes.String()
	})
	l.t.Cleanup(func() { stop() })
	return stop
}

// traffic sends packets between pods of all nodes. stop ends it and fails the test for each that was lost.
func (f faults) traffic(what string) (stop func()) {
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

// agentsKilled kills the agent of each node, which starts again as after an upgrade: no packet is lost, and nothing is written.
func (f faults) agentsKilled() {
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

// noWrites checks that nobody has changed networks, or made endpoints, in HNS of a node since its statistics were reset. Pods that are being
// deleted take their endpoints away.
func (l *lab) noWrites(node string) {
	l.t.Helper()
	writes := []string{"HcnCreateNetwork", "HcnModifyNetwork", "HcnDeleteNetwork", "HcnCreateEndpoint"}
	for line := range strings.Lines(l.hnsOf(node, "stats")) {
		if w := strings.Fields(line); len(w) > 0 && slices.Contains(writes, w[0]) {
			l.t.Errorf("the routes of %s started again, and wrote: %s", node, line)
		}
	}
}

// secondAgent starts another agent on a node by mistake. It says why it ends, and changes nothing.
func (f faults) secondAgent() {
	f.t.Helper()
	changes := f.monitor("lin01")
	_, err := commandIn("porthole-lin01", 20*time.Second, porthole, "routes", "--kubeconfig", filepath.Join(dir, "kubeconfig"), "--hostname-override", "lin01",
		"--cluster-cidr", "10.244.0.0/16", "--service-cidr", "10.96.0.0/16", "--mode", "host-gateway")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:10261") {
		f.t.Errorf("a second agent: %v, want an error that names the port of the first", err)
	}
	if got := changes(); got != "" {
		f.t.Errorf("a second agent changed:\n%s", got)
	}
}

// routesTaken deletes all routes of every node, and overwrites one with a wrong next hop.
func (f faults) routesTaken() {
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

// linkCut cuts the cable of a Linux and a Windows node for 10 s.
func (f faults) linkCut() {
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

// apiAway stops the control plane for a minute. Pods reach each other, a route that somebody deletes comes back, and an agent that starts meanwhile
// changes nothing.
func (f faults) apiAway() {
	f.t.Helper()
	agent, err := routesOf("win01")
	if err != nil {
		f.t.Fatal(err)
	}
	pid := f.controlPlane()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		f.t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)

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
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		f.t.Fatal(err)
	}
	f.complete("win01", agent)
	f.exact("API server back")
}

// controlPlane returns the process id of the control plane.
func (l *lab) controlPlane() int {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "run", "controlplane.json"))
	var state struct{ PID int }
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil || state.PID < 2 {
		l.t.Fatalf("the control plane's process is %d: %v", state.PID, err)
	}
	return state.PID
}

// networkLost lets HNS lose the network of win01 again and again, and kills the agent at each step of making it anew; the last time HNS
// stops meanwhile.
func (f faults) networkLost() {
	f.t.Helper()
	for _, function := range []string{"HcnCreateNetwork", "HcnCreateEndpoint", "HcnModifyNamespace"} {
		f.killDuring("win01", function, 1)
	}
	f.hnsOf("win01", "service", "stopped")
	pid := f.kill("win01")
	f.hnsOf("win01", "service", "running", "lose=Network")
	f.complete("win01", pid)

	if n := strings.Count(f.hnsOf("win01", "dump", "-o", "json"), `"Name": "porthole"`); n != 1 {
		f.t.Errorf("HNS of win01 has %d networks, want 1", n)
	}
	if _, err := kubectl("delete", "pod", "a-win01", "b-win01", "--grace-period=0", "--force"); err != nil {
		f.t.Fatal(err)
	}
	faults{f.lab.fleet()}.exact("network lost and made anew")
}
