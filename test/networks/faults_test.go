package networks

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// endpointDevice is the interface of the host's own endpoint on an emulated host, which has another name when it is
// made anew.
var endpointDevice = regexp.MustCompile(`dev hns[0-9a-f]+`)

// foreignRange has a route of somebody else on every node, which no fault may touch.
const foreignRange = "172.31.0.0/24"

// away is how long the API does not answer: longer than every period of the agents, the longest of which is BGP's hold
// time of 90 s, and than the lease of 40 s after which a node counts as gone.
const away = 5 * time.Minute

// faultTest is a cluster with the pods of onePerNode in which agents, links, routes, HNS and the API fail.
type faultTest struct{ pathCheck }

// TestFaults makes what goes wrong in the field happen in each mode. After each fault every table is as it was before,
// the route of somebody else included, and packets pass. TestHostGatewayFaults and TestVXLANFaults have those of HNS's
// networks, routes/bgp those of sessions.
func TestFaults(t *testing.T) {
	long(t)
	for _, mode := range []string{"host-gateway", "tor", "vxlan", "bgp", "ovn"} {
		t.Run(mode, func(t *testing.T) { faultTest{pathCheck{up(t, mode).fleet()}}.checkFaults() })
	}
}

func (f faultTest) checkFaults() {
	f.t.Helper()
	for _, n := range nodeNames {
		if err := ip(n, "route", "replace", foreignRange, "via", router, "proto", "static")(); err != nil {
			f.t.Fatal(err)
		}
	}
	if f.mode == "ovn" {
		if err := ovnForeign(); err != nil {
			f.t.Fatal(err)
		}
	}
	before := f.settledTables()
	for _, fault := range []struct {
		name string
		lost bool // packets may be lost while it lasts
		make func() error
	}{
		{"every agent is killed at once", false, f.agentsKilled},
		{"a second agent is started", false, f.secondAgent},
		{"the clock jumps", true, f.clockJumps},
		{"everything is deleted, and the agents are killed while they put it back", true, f.deletedAndKilled},
		{"a node's link is cut for 10 s", true, f.linkCut},
		{"the router does not forward for 5 s", f.mode == "tor", f.routerDown},
		{"the API is away", false, f.apiAway},
		{"a route is deleted while the API is away", true, f.deletedWithoutAPI},
	} {
		started, crashes := time.Now(), switchCrashes(f.t, f.mode)
		stop := f.pings()
		err := fault.make()
		sent, lost := stop()
		crashes = switchCrashes(f.t, f.mode) - crashes
		if err != nil {
			f.t.Errorf("%s: %v", fault.name, err)
		}
		if lost > crashes*lostByACrash && !fault.lost {
			f.t.Errorf("%s: %d of %d packets were lost", fault.name, lost, sent)
		}

		ended := time.Now()
		wait.NoError(f.t, 60*time.Second, fault.name+": every table to be as before", func() error {
			if now := f.tables(); now != before {
				return fmt.Errorf("have\n%s\nwant\n%s", now, before)
			}
			return f.healthy()
		})
		wait.NoError(f.t, 20*time.Second, fault.name+": packets to pass", f.pinged("a-win01", "a-win02"))
		f.t.Logf(
			"%s: %d of %d packets lost, %.1f s; all tables right and packets pass %.1f s after its end; Open vSwitch crashed %d times",
			fault.name, lost, sent, time.Since(started).Seconds(), time.Since(ended).Seconds(), crashes)
	}
}

// lostByACrash is how many packets may be lost when ovs-vswitchd crashes. It runs again after 0.1 s; three packets
// were lost each time.
const lostByACrash = 10

// switchCrashes counts the crashes of ovs-vswitchd on the Linux node. Version 3.1.0 with the datapath netdev crashes
// now and then (docs/gaps.md).
func switchCrashes(t *testing.T, mode string) int {
	t.Helper()
	if mode != "ovn" {
		return 0
	}
	log, err := os.ReadFile(filepath.Join(dir, "hosts", "lin01", "logs", "ovs-vswitchd.log"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(log, []byte("assertion conn->conn_type"))
}

// settledTables waits until every route is there and the pods that `porthole up` has used are gone, and returns the
// tables.
func (f faultTest) settledTables() (tables string) {
	f.t.Helper()
	wait.NoError(f.t, 60*time.Second, "every route to be there", func() error {
		tables = f.tables()
		if strings.Contains(tables, "porthole-check") {
			return errors.New("pods that `porthole up` has used are still going")
		}
		if f.tables() != tables { // they may have gone while the tables were read
			return errors.New("the tables are still changing")
		}
		return f.healthy()
	})
	return tables
}

// tables is the route tables of all machines as text, with the entries of VXLAN devices and of HNS's overlay networks.
// What the kernel says of links is left out.
func (f faultTest) tables() string {
	var all strings.Builder
	add := func(machine, text string) {
		text = endpointDevice.ReplaceAllString(text, "dev HOST-ENDPOINT")
		lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, " linkdown", "")), "\n")
		for i := range lines {
			lines[i] = machine + ": " + strings.TrimSpace(lines[i])
		}
		slices.Sort(lines)
		all.WriteString(strings.Join(lines, "\n") + "\n")
	}

	commands := [][]string{{"ip", "route"}}
	if f.mode == "vxlan" {
		commands = append(commands, []string{"ip", "neigh", "show", "nud", "permanent"},
			[]string{"sh", "-c", "bridge fdb | grep dst"})
	}
	for _, machine := range append(slices.Clone(nodeNames), "tor") {
		for _, c := range commands {
			if machine != "lin01" && c[1] != "route" {
				continue
			}
			out, err := commandIn("porthole-"+machine, shortly, c[0], c[1:]...)
			if err != nil {
				return err.Error()
			}
			add(machine, out)
		}
		if f.mode == "vxlan" && strings.HasPrefix(machine, "win") {
			n, err := f.overlay(machine)
			if err != nil {
				return err.Error()
			}
			add(machine, strings.Join(n.routes(), "\n"))
		}
	}
	if f.mode == "ovn" {
		if err := ovnTables(add); err != nil {
			return err.Error()
		}
	}
	return all.String()
}

// healthy returns what an agent says is wrong.
func (f faultTest) healthy() error {
	for _, n := range nodeNames {
		if _, err := commandIn("porthole-"+n, shortly, "curl", "-sS", "--fail-with-body", "-m", "2",
			"http://127.0.0.1:10261/healthz"); err != nil {
			return err
		}
	}
	return nil
}

// pings sends packets between pods of all nodes until stop is called, and at least 1,000.
func (f faultTest) pings() (stop func() (sent, lost int)) {
	done := make(chan struct{})
	var tasks sync.WaitGroup
	sent, lost := 0, 0
	tasks.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ended := false; !ended || sent < 1000; sent++ {
			<-tick.C
			from, to := nodeNames[sent%3], nodeNames[(sent+1)%3]
			if f.pinged("a-"+from, "a-"+to)() != nil {
				lost++
				if ended {
					return // what is broken does not get better by 1,000 packets of 2 s each
				}
			}
			select {
			case <-done:
				ended = true
			default:
			}
		}
	})
	return func() (int, int) { close(done); tasks.Wait(); return sent, lost }
}

// agents returns the process ids of the agents.
func (f faultTest) agents() (pids []int) {
	names := []string{"lin01/routes", "win01/routes", "win02/routes"}
	if f.mode == "ovn" {
		names = append(names, "lin01/ovn-control-plane")
	}
	return f.pids(names...)
}

// agentsKilled kills the agents and waits for the next ones. They must not write a route.
func (f faultTest) agentsKilled() error {
	var monitors []func() string
	for _, n := range nodeNames {
		monitors = append(monitors, f.monitor(n))
	}
	err := f.killAgents()
	for i, stop := range monitors {
		if wrote := stop(); wrote != "" {
			f.t.Errorf("the agent of %s wrote when it started again:\n%s", nodeNames[i], wrote)
		}
	}
	if err != nil || f.mode != "ovn" {
		return err
	}
	wait.NoError(f.t, 20*time.Second, "OVN's controller", func() error {
		writes, err := ovnWrites()
		if writes > 0 {
			f.t.Errorf("OVN's controller wrote %d times when it started again", writes)
		}
		return err
	})
	return nil
}

// killAgents kills the agents and waits until others report every route.
func (f faultTest) killAgents() error {
	old := f.agents()
	for _, pid := range old {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	wait.NoError(f.t, 40*time.Second, "new agents", func() error {
		if err := f.healthy(); err != nil {
			return err
		}
		if now := f.agents(); slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(old, pid) }) {
			return fmt.Errorf("agents %v of before are still among %v", old, now)
		}
		return nil
	})
	return nil
}

// secondAgent starts an agent beside the first. It must end with a message that names the place of the first, and
// write no route.
func (f faultTest) secondAgent() error {
	changes := f.monitor("lin01")
	args := []string{"routes", "--kubeconfig", filepath.Join(dir, "hosts/lin01/kubernetes/routes.kubeconfig"),
		"--hostname-override=lin01", "--mode=" + f.mode, "--cluster-cidr=10.244.0.0/16", "--service-cidr=10.96.0.0/16"}
	if f.mode == "ovn" {
		args = append(args, "--ovn-remote=tcp:10.99.0.11:6642",
			"--ovn-db=unix:"+filepath.Join(dir, "hosts/lin01/openvswitch/db.sock"))
	}
	out, err := commandIn("porthole-lin01", 30*time.Second, porthole, args...)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:10261") {
		return fmt.Errorf("a second agent on lin01 says %v, %s", err, out)
	}
	if wrote := changes(); wrote != "" {
		return fmt.Errorf("a second agent on lin01 wrote:\n%s", wrote)
	}
	return nil
}

// clockJumps sets the clocks of the agent of Linux and of the emulated Windows hosts an hour ahead, and two hours
// back. The agents follow. Meanwhile a deleted route comes back as ever.
func (f faultTest) clockJumps() error {
	clocks := f.pids("lin01/routes", "win01/wineserver", "win02/wineserver")
	for _, offset := range []time.Duration{time.Hour, -time.Hour, 0} {
		for _, pid := range clocks {
			if err := testkit.ShiftClock(pid, offset); err != nil {
				return err
			}
		}
		for node, other := range map[string]string{"lin01": "win01", "win01": "lin01"} {
			if err := f.comesBack(node, f.towards(other)); err != nil {
				return fmt.Errorf("with a clock that is %v off: %w", offset, err)
			}
		}
		for _, n := range nodeNames {
			if err := f.clockIs(n, offset); err != nil {
				return fmt.Errorf("the clock of %s: %w", n, err)
			}
		}
	}
	return nil
}

// clockIs returns an error unless the agent of a node, which dates its answers, has a clock that is off by so much.
func (f faultTest) clockIs(node string, offset time.Duration) error {
	header, err := commandIn("porthole-"+node, shortly, "curl", "-sS", "-m", "2", "-o", "/dev/null", "-D", "-",
		"http://127.0.0.1:10261/status")
	if err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(header)), nil)
	if err != nil {
		return err
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if off := time.Until(date) - offset; err == nil && off.Abs() > 5*time.Minute {
		err = fmt.Errorf("it is %v, which is not %v off", date, offset)
	}
	return err
}

// towards returns the destination of the route by which a node reaches the pods of another.
func (f faultTest) towards(node string) string {
	if f.mode == "ovn" {
		return "10.244.0.0/16" // OVN's routers know the rest
	}
	return f.podRange(node)
}

// comesBack deletes the route of a node to a range, if the mode has routes on nodes, and waits for it. Those of a
// Windows node in the mode vxlan are the emulator's.
func (f faultTest) comesBack(node, pods string) error {
	shown := func() (string, error) {
		return commandIn("porthole-"+node, shortly, "ip", "route", "show", pods)
	}
	want, err := shown()
	if err != nil || want == "" || f.mode == "vxlan" && node != "lin01" {
		return err
	}
	if err := ip(node, "route", "del", pods)(); err != nil {
		return err
	}
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		if now, err := shown(); err != nil || now == want {
			return err
		}
	}
	return fmt.Errorf("route %s of %s is not back after 5 s", pods, node)
}

// deletedAndKilled deletes everything that the agents made in the kernel and kills them, again and again with other
// times between.
func (f faultTest) deletedAndKilled() error {
	for range 3 {
		for _, n := range nodeNames {
			if err := ip(n, "route", "flush", "proto", "201")(); err != nil {
				return err
			}
		}
		if f.mode == "vxlan" {
			if err := ip("lin01", "link", "del", "flannel.4096")(); err != nil {
				return err
			}
		}
		if f.mode == "ovn" {
			if err := ovnDeleted(); err != nil {
				return err
			}
		}
		if err := f.killAgents(); err != nil {
			return err
		}
	}
	return nil
}

// linkCut takes the carriers of win01 away at the switch.
func (f faultTest) linkCut() error {
	ports := f.portsOf("win01")
	for _, p := range ports {
		if err := ip("tor", "link", "set", p, "down")(); err != nil {
			return err
		}
	}
	pause(10 * time.Second)
	for _, p := range ports {
		if err := ip("tor", "link", "set", p, "up")(); err != nil {
			return err
		}
	}
	return nil
}

// routerDown lets the router forward nothing for some seconds. Only in the mode tor do packets of pods need it.
func (f faultTest) routerDown() error {
	if err := setting("tor", "net/ipv4/conf/all/forwarding", "0")(); err != nil {
		return err
	}
	pause(5 * time.Second)
	return setting("tor", "net/ipv4/conf/all/forwarding", "1")()
}

// apiAway stops the control plane.
func (f faultTest) apiAway() error {
	thaw := f.freeze("controlplane")
	defer thaw()
	pause(away)
	return nil
}

// deletedWithoutAPI deletes a route, which comes back although nobody says what should be there.
func (f faultTest) deletedWithoutAPI() error {
	pods := f.towards("win01")
	thaw := f.freeze("controlplane")
	defer thaw()
	return f.comesBack("lin01", pods)
}

// pause lets a fault last.
func pause(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
}
