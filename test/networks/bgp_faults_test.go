package networks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/capture"
	"porthole.dev/porthole/internal/testkit/wait"
)

// faultyBGP is a cluster that meets faults.
type faultyBGP struct{ *fleet }

// TestBGPFaults goes on after each fault with the same cluster. win01 is the node that most of them meet.
func TestBGPFaults(t *testing.T) {
	long(t)
	f := &faultyBGP{up(t, "bgp", "--windows-firewall").fleet()}
	for _, n := range nodeNames {
		f.run("porthole-"+n, "ip", "route", "add", foreignRange, "via", router)
	}

	for _, step := range []struct {
		name string
		do   func()
	}{
		{"the agent of win01 is killed", func() { f.killedWithoutLoss("win01") }},
		{"the agent of lin01 is killed", func() { f.killedWithoutLoss("lin01") }},
		{"the agent of win01 is killed while the API is away", func() { f.killedWithoutAPI("win01") }},
		{"the agent of lin01 is killed while the API is away", func() { f.killedWithoutAPI("lin01") }},
		{"the agent of win01 is killed at each step", f.killedAtEachStep},
		{"the router's bgpd is killed", f.bgpdKilled},
		{"the router ends the session of win01", f.peerDown},
		{"routes of win01 are deleted", f.routesDeleted},
		{"win01 withdraws and comes back", f.withdraws},
		{"somebody else listens on port 179 of win01", f.portTaken},
		{"a peer of win01 has a password", f.password},
		{"the uplink of win01 is cut, with BFD", f.uplinkCutBFD},
		{"the uplink of win01 is cut until its session ends", func() { f.uplinkCut(15 * time.Second) }},
		{"the uplink of win01 is cut for 7 s", f.uplinkCutShort},
		{"HNS loses the network of win01 and stops", f.networkLost},
		{"win01 is drained and comes back", f.drained},
	} {
		t.Run(step.name, func(t *testing.T) {
			f.t = t
			step.do()
			for _, n := range nodeNames {
				if out := f.run("porthole-"+n, "ip", "route", "show", foreignRange); !strings.Contains(out,
					"via "+router) {
					t.Errorf("the route of somebody else on %s is gone: %q", n, out)
				}
			}
		})
	}
	f.t = t
}

// run runs a command in a network namespace, and returns what it prints.
func (f *faultyBGP) run(netns, name string, args ...string) string {
	f.t.Helper()
	out, err := commandIn(netns, shortly, name, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// routesStatus is what the routes of a node say of themselves.
type routesStatus struct {
	Wanted, Present int
	Problems        []string
	Error           string
	Peers           []struct {
		Up    bool
		Since time.Time
	}
}

func routesStatusOf(node string) (s routesStatus, err error) {
	out, err := commandIn("porthole-"+node, shortly, "curl", "-sS", "-m", "5", "http://127.0.0.1:10261/status")
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	return s, err
}

// restarted waits until the routes of a node run in another process than before, and say what is asked for.
func (f *faultyBGP) restarted(node string, before int, is func(routesStatus) bool) routesStatus {
	f.t.Helper()
	var s routesStatus
	wait.NoError(f.t, 60*time.Second, "the routes of "+node, func() error {
		pid, err := routesOf(node)
		if err != nil || pid == before {
			return fmt.Errorf("process %d, before %d: %v", pid, before, err)
		}
		if s, err = routesStatusOf(node); err == nil && !is(s) {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	})
	return s
}

// allThere reports whether a node has its session and all routes.
func allThere(s routesStatus) bool {
	return s.Error == "" && s.Wanted == len(nodeNames) && s.Present == s.Wanted && len(s.Peers) == 1 && s.Peers[0].Up
}

// whole waits until every node has its session and all routes.
func (f *faultyBGP) whole() {
	f.t.Helper()
	for _, n := range nodeNames {
		f.restarted(n, 0, allThere)
	}
}

// changesOfRoutes notes each change of routes inside the pod range, on all nodes, until stop is called.
func (f *faultyBGP) changesOfRoutes() (stop func() []string) {
	f.t.Helper()
	var mu sync.Mutex
	var seen []string
	var reading sync.WaitGroup
	done := make(chan struct{})
	pods := netip.MustParsePrefix("10.244.0.0/16")
	for _, n := range nodeNames {
		updates := make(chan netlink.RouteUpdate, 100)
		if err := platform.InNetns(platform.NetnsPath("porthole-"+n),
			func() error { return netlink.RouteSubscribe(updates, done) }); err != nil {
			f.t.Fatal(err)
		}
		reading.Go(func() {
			for u := range updates {
				if u.Dst == nil || u.Gw == nil {
					continue
				}
				if dst, err := netip.ParsePrefix(u.Dst.String()); err == nil && pods.Overlaps(dst) {
					mu.Lock()
					seen = append(seen, fmt.Sprintf("%s: %d %s", n, u.Type, u.Route))
					mu.Unlock()
				}
			}
		})
	}

	end := sync.OnceFunc(func() { close(done); reading.Wait() })
	f.t.Cleanup(end)
	return func() []string { end(); return seen }
}

// killedWithoutLoss: peers keep the routes of a node whose agent is away for a short time, and the next one changes
// none.
func (f *faultyBGP) killedWithoutLoss(node string) {
	other := "lin01"
	if node == other {
		other = "win02"
	}
	stop, pings, began := f.changesOfRoutes(), f.pinging(node, other), time.Now()
	f.restarted(node, f.kill(node), allThere)
	took := time.Since(began)
	f.whole()
	sent, lost := pings()
	f.t.Logf("killed; session and all routes after %v; %d of %d packets lost", took.Round(time.Millisecond), lost, sent)
	if lost > 0 || sent < 1000 {
		f.t.Errorf("%d of %d packets were lost", lost, sent)
	}
	if changes := stop(); len(changes) > 0 {
		f.t.Errorf("routes were changed:\n%s", strings.Join(changes, "\n"))
	}
}

// killedWithoutAPI: an agent that starts while the API server is away works with the nodes that an earlier one knew,
// so that its session is back before the router drops its routes.
func (f *faultyBGP) killedWithoutAPI(node string) {
	other := "lin01"
	if node == other {
		other = "win02"
	}
	thaw := pathCheck{f.fleet}.freeze("controlplane")
	defer thaw()
	stop, pings := f.changesOfRoutes(), f.pinging(node, other)
	took := f.nextWithoutAPI(node, allThere)
	pause(35*time.Second - took) // longer than peers keep the routes of a node without a session
	sent, lost := pings()
	f.t.Logf("killed without the API server; session and all routes after %v; %d of %d packets lost",
		took.Round(time.Millisecond), lost, sent)
	if lost > 0 || sent < 1000 {
		f.t.Errorf("%d of %d packets were lost", lost, sent)
	}
	if changes := stop(); len(changes) > 0 {
		f.t.Errorf("routes were changed:\n%s", strings.Join(changes, "\n"))
	}
	thaw()
	f.whole()
}

// nextWithoutAPI kills the agent of a node while the API server is away, and returns after which time the next one has
// a session and says what is asked for.
func (f *faultyBGP) nextWithoutAPI(node string, is func(routesStatus) bool) time.Duration {
	f.t.Helper()
	before, began := (pathCheck{f.fleet}).pids(node + "/routes")[0], time.Now()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	wait.NoError(f.t, 25*time.Second, "the session of the next agent of "+node, func() error {
		s, err := routesStatusOf(node)
		if err == nil && (!is(s) || !s.Peers[0].Since.After(began)) {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	})
	return time.Since(began)
}

// killedAtEachStep lets the agent of win01 begin without routes, holds it at each step by what the router tells it,
// and kills it there. The next one has everything.
func (f *faultyBGP) killedAtEachStep() {
	win01 := "neighbor " + f.nodes["win01"].String()
	f.vtysh("bgpd", "conf t", "ip prefix-list none seq 5 deny any",
		"ip prefix-list one seq 5 permit "+f.podRange("lin01"))
	family := func(line string) []string {
		return []string{"conf t", "router bgp 64500", "address-family ipv4 unicast", line}
	}

	for _, step := range []struct {
		name       string
		hold, free []string
		is         func(routesStatus) bool
	}{
		{"its peer is set, and has no session", []string{"conf t", "router bgp 64500", win01 + " shutdown"},
			[]string{"conf t", "router bgp 64500", "no " + win01 + " shutdown"},
			func(s routesStatus) bool { return len(s.Peers) == 1 && !s.Peers[0].Up }},
		{"it has a session, and has learnt nothing", family(win01 + " prefix-list none out"),
			family("no " + win01 + " prefix-list none out"),
			func(s routesStatus) bool { return len(s.Peers) == 1 && s.Peers[0].Up && s.Present == 1 }},
		{"it has one of two routes", family(win01 + " prefix-list one out"),
			family("no " + win01 + " prefix-list one out"),
			func(s routesStatus) bool { return len(s.Peers) == 1 && s.Peers[0].Up && s.Present == 2 }},
	} {
		f.vtysh("bgpd", step.hold...)
		first := f.kill("win01")
		for _, n := range []string{"lin01", "win02"} { // as after a reboot, so that there is something to do
			f.run("porthole-win01", "sh", "-c", "ip route del "+f.podRange(n)+" 2>/dev/null; true")
		}
		f.restarted("win01", first, step.is)

		second := f.kill("win01")
		f.vtysh("bgpd", step.free...)
		f.restarted("win01", second, allThere)
		f.whole()
		f.reach("killed when "+step.name, "win01")
	}
}

// bgpdKilled: FRR keeps no routes for a daemon that is killed. Nodes drop theirs when it is back, until it has told
// them again, and their packets take the default route meanwhile.
func (f *faultyBGP) bgpdKilled() {
	var status struct {
		Processes []struct {
			Name string
			PID  int
		}
	}
	if err := json.Unmarshal([]byte(f.run("", porthole, "status", "--dir", dir, "-o", "json")), &status); err != nil {
		f.t.Fatal(err)
	}
	i := slices.IndexFunc(status.Processes, func(p struct {
		Name string
		PID  int
	}) bool {
		return strings.HasSuffix(p.Name, "bgpd")
	})
	if i < 0 || status.Processes[i].PID < 2 {
		f.t.Fatalf("no bgpd among %+v", status.Processes)
	}

	pings, began := f.pinging("win01", "win02"), time.Now()
	if err := syscall.Kill(status.Processes[i].PID, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	for _, n := range nodeNames {
		f.restarted(n, 0, func(s routesStatus) bool { return allThere(s) && s.Peers[0].Since.After(began) })
	}
	took := time.Since(began)
	sent, lost := pings()
	f.t.Logf("all sessions and routes after %v; %d of %d packets lost", took.Round(time.Millisecond), lost, sent)
	const longest = 15 // each lost packet is waited for one second; seen: 8, with sessions and routes after 8 s
	if lost > longest {
		f.t.Errorf("%d of %d packets were lost", lost, sent)
	}
}

// peerDown: a router that refuses the session is told in status and in an event.
func (f *faultyBGP) peerDown() {
	const down = "peer " + router + " (AS 64500) has no session"
	neighbor := "neighbor " + f.nodes["win01"].String() + " shutdown"
	f.vtysh("bgpd", "conf t", "router bgp 64500", neighbor)
	s := f.restarted("win01", 0,
		func(s routesStatus) bool { return len(s.Problems) > 0 && strings.Contains(s.Problems[0], down) })
	if len(s.Peers) != 1 || s.Peers[0].Up {
		f.t.Errorf("peers %+v", s.Peers)
	}
	f.warned("NetworkProblem", []string{"win01"}, down)
	if text := f.run("", porthole, "status", "--dir", dir); !strings.Contains(text, "win01: "+down) {
		f.t.Errorf("`porthole status` does not name it:\n%s", text)
	}
	f.vtysh("bgpd", "conf t", "router bgp 64500", "no "+neighbor)
	f.whole()
}

// vtysh runs commands at the terminal of one of the router's daemons. If no daemon is named, vtysh 8.4 of Debian 12
// sends commands about prefix lists to zebra as well as to bgpd. The router's zebra 10.3 refuses them: mgmtd has them
// there.
func (f *faultyBGP) vtysh(daemon string, commands ...string) string {
	f.t.Helper()
	args := []string{"--vty_socket", filepath.Join(dir, "router"), "-d", daemon}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	return f.run("", "vtysh", args...)
}

func (f *faultyBGP) routesDeleted() {
	for _, n := range []string{"lin01", "win02"} {
		f.run("porthole-win01", "ip", "route", "del", f.podRange(n))
	}
	for _, n := range []string{"lin01", "win02"} {
		f.leads("win01", f.podRange(n), f.nodes[n].String(), 3*time.Second)
	}
	f.reach("routes deleted", "win01")
}

// leads waits until the route of a node to a range goes through an address, or is gone if via is "", and returns how
// long that took.
func (f *faultyBGP) leads(node, dst, via string, limit time.Duration) time.Duration {
	f.t.Helper()
	began := time.Now()
	wait.NoError(f.t, limit, "the route of "+node+" to "+dst, func() error {
		out, err := commandIn("porthole-"+node, shortly, "ip", "route", "show", "exact", dst)
		if got := strings.TrimSpace(out); err == nil &&
			(via == "" && got != "" || via != "" && !strings.Contains(got, "via "+via+" ")) {
			err = fmt.Errorf("it is %q, want via %q", got, via)
		}
		return err
	})
	return time.Since(began)
}

// withdraws: a node with the annotation announces nothing; its own routes stay.
func (f *faultyBGP) withdraws() {
	const annotation = "porthole.dev/bgp-withdraw"
	annotate := func(change string) {
		f.t.Helper()
		if _, err := kubectl("annotate", "node", "win01", annotation+change); err != nil {
			f.t.Fatal(err)
		}
	}
	mine := f.podRange("win01")
	annotate("=true")
	f.t.Logf("withdrawn after %v", f.leads("lin01", mine, "", 3*time.Second).Round(time.Millisecond))
	f.leads("tor", mine, "", 3*time.Second)
	f.warned("NetworkProblem", []string{"win01"}, mine, annotation)
	annotate("-")
	f.leads("lin01", mine, f.nodes["win01"].String(), 3*time.Second)
	f.whole()
}

// portTaken: another program has port 179, as RRAS would. The node opens its session itself, and says so.
func (f *faultyBGP) portTaken() {
	win01, tor := f.nodes["win01"], netip.MustParseAddr(router)
	wire := capture.Start(f.t, platform.NetnsPath("porthole-win01"), "eth0")
	before := f.kill("win01")
	var other net.Listener
	wait.NoError(f.t, 5*time.Second, "port 179", func() error {
		return platform.InNetns(platform.NetnsPath("porthole-win01"), func() (err error) {
			other, err = net.Listen("tcp4", ":179")
			return err
		})
	})
	defer other.Close()
	go func() {
		for c, err := other.Accept(); err == nil; c, err = other.Accept() {
			c.Close()
		}
	}()

	s := f.restarted("win01", before, func(s routesStatus) bool { return allThere(s) && len(s.Problems) > 0 })
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "port 179 cannot be listened on") ||
		!strings.Contains(s.Problems[0], "RemoteAccess (RRAS)") {
		f.t.Errorf("problems %q", s.Problems)
	}
	wire.Wait(f.t, "win01 to open the session", func(p capture.Packet) bool {
		return p.Protocol == capture.TCP && p.Src == win01 && p.Dst == tor && p.DstPort == 179
	})
	f.warned("NetworkProblem", []string{"win01"}, "port 179", "RemoteAccess (RRAS)")
	f.reach("port 179 taken", "win01")

	other.Close()
	if s = f.restarted("win01", f.kill("win01"), allThere); len(s.Problems) > 0 {
		f.t.Errorf("with the port free: %+v", s)
	}
}

// configure gives the agent of win01 another configuration and kills it. It returns the process id, and puts the
// configuration back when the test ends.
func (f *faultyBGP) configure(change func(string) string) (before int) {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "hosts", "win01", "prefix", "drive_c", "etc", "kubernetes",
		"bgp.yaml"))
	if err != nil || len(files) != 1 {
		f.t.Fatalf("configurations %v: %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := os.WriteFile(files[0], text, 0o644); err != nil {
			f.t.Error(err)
		}
		f.restarted("win01", f.kill("win01"), allThere)
		f.whole()
	})
	if err := os.WriteFile(files[0], []byte(change(string(text))), 0o644); err != nil {
		f.t.Fatal(err)
	}
	return f.kill("win01")
}

// password: Windows has no TCP MD5. A session that should be protected is not opened without, and the node says why.
func (f *faultyBGP) password() {
	before := f.configure(func(text string) string {
		return strings.Replace(text, "asNumber: 64500}", "asNumber: 64500, password: secret}", 1)
	})
	var wire *capture.Wire
	wait.NoError(f.t, 20*time.Second, "the next agent", func() error {
		pid, err := routesOf("win01")
		if pid == before {
			err = errors.New("not yet")
		}
		return err
	})
	wire = capture.Start(f.t, platform.NetnsPath("porthole-win01"), "eth0")
	s := f.restarted("win01", before, func(s routesStatus) bool { return len(s.Problems) > 0 && len(s.Peers) == 1 })
	if !slices.ContainsFunc(s.Problems, func(p string) bool {
		return strings.Contains(p, "peer "+router+" has a password: Windows has no TCP MD5")
	}) {
		f.t.Errorf("problems %q", s.Problems)
	}
	f.warned("NetworkProblem", []string{"win01"}, "peer "+router+" has a password")
	opened := wire.Packets(func(p capture.Packet) bool { return p.Src == f.nodes["win01"] && p.DstPort == 179 })
	if len(opened) > 0 {
		f.t.Errorf("win01 opened a session without the password: %s", opened[0])
	}
}

// uplink takes the node's port out of the switch, or puts it back. Neither end sees the link go.
func (f *faultyBGP) uplink(node string, in bool) {
	f.t.Helper()
	change := []string{"nomaster"}
	if in {
		change = []string{"master", "sw0"}
	}
	f.run("porthole-tor", "ip", append([]string{"link", "set", node}, change...)...)
}

// uplinkCut cuts win01 off until the others have no route to it, which takes at most so long, and lets it come back.
// The session is not new then: both sides connect, and FRR takes a second connection of a peer for a restart, after
// which it keeps the peer's routes for 30 s.
func (f *faultyBGP) uplinkCut(most time.Duration) {
	mine := f.podRange("win01")
	f.restarted("win01", 0, func(s routesStatus) bool {
		return allThere(s) && time.Since(s.Peers[0].Since) > 5*time.Second
	})
	f.t.Cleanup(func() { f.uplink("win01", true) })
	f.uplink("win01", false)
	took := f.leads("lin01", mine, "", most)
	f.uplink("win01", true)
	began := time.Now()
	f.leads("lin01", mine, f.nodes["win01"].String(), 30*time.Second)
	f.whole()
	f.t.Logf("others have no route to win01 after %v, and all have all %v after the link is back",
		took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	f.reach("uplink back", "win01")
}

// uplinkCutBFD is uplinkCut with BFD between the router and win01.
func (f *faultyBGP) uplinkCutBFD() {
	const program = "/usr/lib/frr/bfdd" // of the machine: the root folder has none
	version := func(text string) string {
		first, _, _ := strings.Cut(text, "\n")
		return first[strings.LastIndexByte(first, ' ')+1:]
	}
	its := version(f.run("", "../../bin/inroot", "../../bin/root", "/usr/lib/frr/zebra", "--version"))
	if own := version(f.run("", program, "--version")); own != its {
		f.t.Skipf("the machine's bfdd %s ends beside the root folder's zebra %s", own, its)
	}

	folder := filepath.Join(dir, "router")
	bfdd := exec.Command(program, "--vty_socket", folder, "-z", filepath.Join(folder, "zserv.api"),
		"-i", filepath.Join(folder, "bfdd.pid"), "-f", "/dev/null", "-P", "0", "--log", "stdout",
		"--bfdctl", filepath.Join(folder, "bfdd.sock"))
	bfdd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := platform.StartInNetns(platform.NetnsPath("porthole-tor"), bfdd); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { bfdd.Process.Kill(); bfdd.Wait() })
	wait.NoError(f.t, 10*time.Second, "bfdd",
		func() error { _, err := os.Stat(filepath.Join(folder, "bfdd.vty")); return err })
	neighbor := "neighbor " + f.nodes["win01"].String() + " bfd"
	f.vtysh("bgpd", "conf t", "router bgp 64500", neighbor, neighbor+" 3 300 300")
	f.t.Cleanup(func() { f.vtysh("bgpd", "conf t", "router bgp 64500", "no "+neighbor) })

	f.restarted("win01", f.configure(func(text string) string { return text + "bfd: {enabled: true}\n" }), allThere)
	wait.NoError(f.t, 20*time.Second, "BFD with win01", func() error {
		if out := f.vtysh("bfdd", "show bfd peers"); !strings.Contains(out, "Status: up") {
			return errors.New(out)
		}
		return nil
	})
	f.uplinkCut(3 * time.Second)
}

// uplinkCutShort cuts the uplink of win01 for less than the hold time. The session may end after the link is back,
// because TCP waits ever longer before it sends again; then the routes of win01 are gone until the next session.
func (f *faultyBGP) uplinkCutShort() {
	f.uplink("win01", false)
	pause(7 * time.Second)
	f.uplink("win01", true)
	began := time.Now()
	f.reach("uplink back", "win01")
	f.t.Logf("packets pass again %v after the link is back", time.Since(began).Round(time.Millisecond))
	pause(9*time.Second - time.Since(began)) // the hold time
	f.whole()
	f.t.Logf("all sessions and routes %v after the link is back", time.Since(began).Round(time.Millisecond))
	f.reach("uplink back for long", "win01")
}

// networkLost is that of faultTest. Pods of win01 are made anew.
func (f *faultyBGP) networkLost() { f.fleet = faultTest{pathCheck{f.fleet}}.networkLost().fleet }

// drained: win01 is drained with kubectl. Its range stays announced as long as there is a pod, which others reach, and
// is withdrawn with the last one. When it takes pods again it announces its range.
func (f *faultyBGP) drained() {
	mine := f.podRange("win01")
	drain := func(more ...string) {
		f.t.Helper()
		if out, err := kubectl(append([]string{"drain", "win01", "--ignore-daemonsets", "--force",
			"--delete-emptydir-data", "--timeout=50s"}, more...)...); err != nil {
			f.t.Fatalf("%v\n%s", err, out)
		}
	}

	changes, pings := f.changesOfRoutes(), f.pinging("win01", "lin01")
	if _, err := kubectl("cordon", "win01"); err != nil {
		f.t.Fatal(err)
	}
	if _, err := kubectl("delete", "pod", "b-win01"); err != nil {
		f.t.Fatal(err)
	}
	if sent, lost := pings(); lost > 0 || sent == 0 {
		f.t.Errorf("%d of %d packets were lost with a pod that the cordoned node still has", lost, sent)
	}
	if changed := changes(); len(changed) > 0 {
		f.t.Errorf("a node that is only cordoned changed routes:\n%s", strings.Join(changed, "\n"))
	}

	drain()
	f.t.Logf("withdrawn %v after kubectl drain", f.leads("lin01", mine, "", 5*time.Second).Round(time.Millisecond))
	f.leads("tor", mine, "", 5*time.Second)
	f.leads("win01", f.podRange("lin01"), f.nodes["lin01"].String(), 5*time.Second)
	f.warned("NetworkProblem", []string{"win01"}, mine, "the node is drained")

	f.drainedAgain()
	if _, err := kubectl("uncordon", "win01"); err != nil {
		f.t.Fatal(err)
	}
	f.t.Logf("announced %v after kubectl uncordon",
		f.leads("lin01", mine, f.nodes["win01"].String(), 5*time.Second).Round(time.Millisecond))
	f.fleet = f.lab.fleet()
	f.whole()
	f.reach("uncordoned", "win01")
}

// drainedAgain starts the agent of win01, which is drained, again: with the API server, and while that is away.
func (f *faultyBGP) drainedAgain() {
	silent := func(s routesStatus) bool {
		return len(s.Peers) == 1 && s.Peers[0].Up && s.Wanted == len(nodeNames)-1 && s.Present == s.Wanted &&
			slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, "the node is drained") })
	}
	changes := f.changesOfRoutes()
	f.restarted("win01", f.kill("win01"), silent)
	thaw := pathCheck{f.fleet}.freeze("controlplane")
	defer thaw()
	f.t.Logf("killed without the API server; session and all routes after %v",
		f.nextWithoutAPI("win01", silent).Round(time.Millisecond))
	pause(5 * time.Second) // for a range that is announced late
	if changed := changes(); len(changed) > 0 {
		f.t.Errorf("the agent of a drained node started again, and changed routes:\n%s", strings.Join(changed, "\n"))
	}
	thaw()
	f.restarted("win01", 0, silent)
}
