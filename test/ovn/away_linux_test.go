package ovn

import (
	"context"
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
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/openvswitch"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/ovn/controller"
)

// long skips a test that takes long, unless such tests are asked for.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("PORTHOLE_NETWORKS") == "" {
		t.Skip("takes half a minute: PORTHOLE_NETWORKS=short, or long for an outage of 10 minutes")
	}
}

// pace is how often stream asks. An outage of 10 minutes must not keep the machine busy.
func pace() time.Duration {
	if os.Getenv("PORTHOLE_NETWORKS") == "long" {
		return 50 * time.Millisecond
	}
	return 10 * time.Millisecond
}

// stream is packets that are sent until stop.
type stream struct {
	asked atomic.Int64
	// stop returns how many were asked and how many got no answer.
	stop func() (asked, lost int)
}

// enough waits until each stream has sent a thousand packets.
func (w faultWorld) enough(streams map[string]*stream) {
	w.t.Helper()
	for name, s := range streams {
		wait.True(w.t, 2*time.Minute, "a thousand packets "+name, func() bool { return s.asked.Load() >= 1000 })
	}
}

// stream asks a server of listen by UDP at each pace, each time from another port. The ports of two streams differ: a
// new connection to a pod with the addresses and ports of one to a service that was translated to that pod ends
// ovs-vswitchd 3.1.0 with the datapath netdev (assertion conn->conn_type == CT_CONN_TYPE_DEFAULT in conntrack.c).
func (w *world) stream(from *netspace.Space, to netip.AddrPort) *stream {
	ctx, cancel := context.WithCancel(w.t.Context())
	began, ticker := time.Now(), time.NewTicker(pace())
	var done sync.WaitGroup
	s, lost := &stream{}, 0
	const ports = 5000
	w.streams++
	first := 10000 + w.streams%4*ports

	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			asked := s.asked.Add(1)
			if err := echo(from, uint16(first+int(asked)%ports), to); err != nil {
				lost++
				w.t.Logf("packet %d to %s, %v after the first: %v", asked, to,
					time.Since(began).Round(time.Millisecond), err)
			}
		}
	})
	s.stop = func() (int, int) { cancel(); done.Wait(); ticker.Stop(); return int(s.asked.Load()), lost }
	return s
}

// echo sends a packet by UDP from a port of a namespace and waits a second for the answer.
func echo(from *netspace.Space, port uint16, to netip.AddrPort) error {
	var conn *net.UDPConn
	var err error
	from.Do(func() error {
		conn, err = net.DialUDP("udp4", &net.UDPAddr{Port: int(port)}, net.UDPAddrFromAddrPort(to))
		return nil
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write(make([]byte, 100)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 2048))
	return err
}

// nothingLost ends streams and fails the test if one of their packets had no answer.
func (w *world) nothingLost(what string, streams map[string]*stream) {
	w.t.Helper()
	for name, s := range streams {
		asked, lost := s.stop()
		if lost > 0 || asked == 0 {
			w.t.Errorf("%s: %d of %d packets %s had no answer", what, lost, asked, name)
		}
		w.t.Logf("%s: %d of %d packets %s lost", what, lost, asked, name)
	}
}

// kill ends a daemon as a crash does, and restart starts it again.
func (w *world) kill(names ...string) {
	for _, name := range names {
		w.daemons[name].kill()
	}
}

func (w *world) restart(names ...string) {
	w.t.Helper()
	for _, name := range names {
		host, _, _ := strings.Cut(name, "/")
		space, all := w.master, w.central.Daemons()
		if n := w.nodes[host]; n != nil {
			space, all = n.space, n.host.Daemons()
		}
		i := slices.IndexFunc(all, func(d openvswitch.Daemon) bool { return host+"/"+d.Name == name })
		w.start(host, space, all[i])
	}
}

// flows returns the flows of br-int of a node, without what counts packets and time.
func (w *world) flows(n *node) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), "ovs-ofctl", "--no-stats", "dump-flows",
		"unix:"+filepath.Join(n.host.Dir, "br-int.mgmt")).CombinedOutput()
	if err != nil {
		w.t.Fatalf("flows of %s: %v: %s", n.name, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// pair makes two nodes with a pod each, and a service in front of the second.
func (w *world) pair() (a, c *pod) {
	w.t.Helper()
	w.addNode("n1", "10.99.0.11", "10.244.1.0/24")
	w.addNode("n2", "10.99.0.12", "10.244.2.0/24")
	w.sync()
	a, c = w.addPod("a", "n1"), w.addPod("c", "n2")
	w.listen(a.space, "a", a.addr)
	w.listen(c.space, "c", c.addr)
	w.service("web", "10.96.0.20", 80, c)
	w.reach(a.space, c.addr, 8080, "c")
	w.reach(a.space, netip.MustParseAddr("10.96.0.20"), 80, "c")
	return a, c
}

// TestDatabasesAway takes OVN's databases away: what runs goes on, a new pod is told what is missing, and afterwards
// everything is as before. Nothing here counts the time of an outage: attempts are at most 8 s apart (Open vSwitch's
// reconnect) and 5 s (the controller's), so that an outage of 20 s shows what one of 10 minutes does, which
// PORTHOLE_NETWORKS=long makes.
// Row 1.49.
func TestDatabasesAway(t *testing.T) {
	long(t)
	w := newWorld(t)
	a, c := w.pair()
	n1, n2 := w.nodes["n1"], w.nodes["n2"]
	before := map[string]string{"n1": w.flows(n1), "n2": w.flows(n2)}
	writes := w.controller.Status().Writes
	streams := map[string]*stream{
		"to a pod":     w.stream(a.space, netip.AddrPortFrom(c.addr, 8080)),
		"to a service": w.stream(a.space, netip.MustParseAddrPort("10.96.0.20:80")),
	}

	began := time.Now()
	daemons := []string{"master/ovn-nb", "master/ovn-sb", "master/ovn-northd"}
	w.kill(daemons...)
	late := w.tryPod("late", "n1")
	out, err := w.cni("ADD", late)
	for _, want := range []string{"annotation", "ovn-control-plane", "northbound database"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("ADD without the databases: %v, %s; want an error that speaks of %q", err, out, want)
		}
	}
	if out, err := w.cni("DEL", late); err != nil {
		t.Errorf("DEL without the databases: %v: %s", err, out)
	}
	// 0.2.0, which a configuration without it has, knows no CHECK
	a.conf = strings.Replace(a.conf, "{", `{"cniVersion": "1.0.0",`, 1)
	if out, err := w.cni("CHECK", a); err != nil {
		t.Errorf("CHECK of a pod that runs: %v: %s", err, out)
	}
	if os.Getenv("PORTHOLE_NETWORKS") == "long" {
		<-time.After(10*time.Minute - time.Since(began)) // the outage itself
	}
	for _, n := range w.nodes {
		n.space.Do(func() error { n.agent.Sync(t.Context()); return nil })
		if s := n.agent.Status(); !s.Complete() {
			t.Errorf("node %s while the databases are away: %+v", n.name, s)
		}
	}
	away := time.Since(began)

	w.restart(daemons...)
	began = time.Now()
	w.carriedOut()
	w.nothingLost("databases away", streams) // each interface that comes or goes can cost a packet (docs/gaps.md)
	wait.NoError(t, 30*time.Second, "ADD after the return", func() error {
		out, err := w.cni("ADD", late)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	t.Logf("databases away for %v; a pod was attached %v after their return", away.Round(time.Second),
		time.Since(began).Round(10*time.Millisecond))
	w.must(second(w.cni("DEL", late)))
	w.api.remove(late.Pod)
	wait.NoError(t, 20*time.Second, "the flows of before", func() error {
		for _, n := range []*node{n1, n2} {
			if got := w.flows(n); got != before[n.name] {
				return fmt.Errorf("node %s has other flows: %s", n.name, difference(before[n.name], got))
			}
		}
		return nil
	})
	if got := w.controller.Status().Writes - writes; got != 2 {
		t.Errorf("the controller wrote %d times, want 2: the pod that came and went", got)
	}
}

// carriedOut waits until every ovn-controller has carried out what the northbound database has.
func (w *world) carriedOut() {
	w.t.Helper()
	wait.NoError(w.t, 60*time.Second, "the nodes to carry out what OVN's database has", func() error {
		out, err := exec.CommandContext(w.t.Context(), "ovn-nbctl", "--db=unix:"+w.central.NB(), "--timeout=50",
			"--wait=hv", "sync").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func second(_ []byte, err error) error { return err }

// difference returns the lines that only one of two texts has.
func difference(before, after string) string {
	var out []string
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, l := range was {
		if !slices.Contains(is, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range is {
		if !slices.Contains(was, l) {
			out = append(out, "+ "+l)
		}
	}
	return strings.Join(out, "\n")
}

// TestRestarts kills ovn-controller, the agents and the controller, one after the other. Nothing is written and no
// packet is lost. It ends ovn-controller in the way that leaves the node as it is too: without --restart it would take
// its tunnels with it.
func TestRestarts(t *testing.T) {
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	n1 := w.nodes["n1"]
	before := w.flows(n1)
	streams := map[string]*stream{
		"to a pod":     w.stream(a.space, netip.AddrPortFrom(c.addr, 8080)),
		"to a service": w.stream(a.space, netip.MustParseAddrPort("10.96.0.20:80")),
	}

	w.kill("n1/ovn-controller")
	w.syncAll()
	w.restart("n1/ovn-controller")
	w.exit(n1, "--restart")
	w.restart("n1/ovn-controller")

	for _, n := range w.nodes {
		w.startAgent(n)
	}
	w.syncAll()
	for _, n := range w.nodes {
		if got := n.writes.Load(); got != 0 {
			t.Errorf("the new agent of %s made %d changes", n.name, got)
		}
	}
	next := controller.New(controller.Options{NB: "unix:" + w.central.NB(), SB: "unix:" + w.central.SB(),
		Cluster: w.api})
	w.stopController()
	w.background(next.Run)
	wait.NoError(t, 10*time.Second, "the next controller", func() error {
		if s := next.Status(); !s.Active || s.LastSync.IsZero() {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if s := next.Status(); s.Writes != 0 {
		t.Errorf("the next controller wrote: %+v", s)
	}

	wait.NoError(t, 20*time.Second, "the flows of before", func() error {
		if got := w.flows(n1); got != before {
			return fmt.Errorf("other flows: %s", difference(before, got))
		}
		return nil
	})
	w.enough(streams)
	w.nothingLost("restarts", streams)
}

// TestSwitchRestarted: the agent says that ovs-vswitchd is away. A new one makes the node's interfaces anew, without
// their addresses.
func TestSwitchRestarted(t *testing.T) {
	long(t)
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	w.kill("n1/ovs-vswitchd")
	w.problem("n1", "ovs-vswitchd does not work on node n1", "Start it again")
	w.restart("n1/ovs-vswitchd")
	w.sync()
	w.problem("n1")
	w.reach(a.space, c.addr, 8080, "c")
	w.reach(w.nodes["n1"].space, c.addr, 8080, "c")
	if got := w.nodes["n1"].writes.Load(); got == 0 {
		t.Error("the agent had nothing to put back")
	}
}

// repaired waits until the agent of a node has seen what others changed, and has changed something.
func (w faultWorld) repaired(n *node) {
	w.t.Helper()
	before := n.writes.Load()
	wait.NoError(w.t, 20*time.Second, "the agent of "+n.name, func() error {
		w.syncAll()
		if n.writes.Load() == before {
			return errors.New("it has changed nothing")
		}
		return nil
	})
}

// TestBehindOurBack: another program takes the port of a pod for itself on another node, and changes what the agent
// keeps.
func TestBehindOurBack(t *testing.T) {
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	n1, n2 := w.nodes["n1"], w.nodes["n2"]
	w.vsctl(n1, "add-port", "br-int", "thief", "--", "set", "interface", "thief", "type=internal",
		"external_ids:iface-id=default_c")
	packets := w.stream(a.space, netip.AddrPortFrom(c.addr, 8080))
	w.vsctl(n2, "set", "open", ".", "external_ids:system-id=other", "external_ids:ovn-encap-ip=10.99.0.99")
	w.repaired(n2)
	w.sync()
	wait.NoError(t, 20*time.Second, "the chassis", func() error {
		if got := strings.Join(w.chassis(), " "); !strings.Contains(got, "n2") {
			return fmt.Errorf("chassis %q", got)
		}
		return nil
	})
	w.reach(a.space, c.addr, 8080, "c")
	asked, lost := packets.stop()
	t.Logf("%d of %d packets lost while the id of a node was another", lost, asked)

	w.in(n2, "ip", "route", "flush", "proto", "201")
	w.vsctl(n2, "del-port", "br-int", "k8s-n2")
	w.repaired(n2)
	w.sync()
	w.reach(n2.space, a.addr, 8080, "a")
}

// sendFrom sends a packet by UDP from an address of a namespace, and returns the answer.
func sendFrom(space *netspace.Space, from netip.Addr, to string) (answer string, err error) {
	space.Do(func() error {
		dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		var conn net.Conn
		if conn, err = dialer.Dial("udp", to); err != nil {
			return nil
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err = conn.Write([]byte("x")); err != nil {
			return nil
		}
		buffer := make([]byte, 2048)
		n, readErr := conn.Read(buffer)
		answer, err = string(buffer[:n]), readErr
		return nil
	})
	return answer, err
}

// TestSpoofed: a packet with the address of another is dropped at the sender's port.
func TestSpoofed(t *testing.T) {
	long(t)
	w := newWorld(t)
	a, c := w.pair()
	a.space.Address("eth0", "10.244.1.200/24")
	if answer, err := sendFrom(a.space, netip.MustParseAddr("10.244.1.200"),
		netip.AddrPortFrom(c.addr, 8080).String()); err == nil {
		t.Errorf("a packet with another's address was answered: %s", answer)
	}
	if answer, err := sendFrom(a.space, a.addr, netip.AddrPortFrom(c.addr, 8080).String()); err != nil {
		t.Errorf("one with its own was not: %s %v", answer, err)
	}
}

// TestTunnelsDiffer: two nodes whose kinds of tunnels have nothing in common say so, and reach each other once they
// have.
func TestTunnelsDiffer(t *testing.T) {
	w := newWorld(t)
	n1 := w.addNode("n1", "10.99.0.11", "10.244.1.0/24")
	w.encap = "vxlan"
	n2 := w.addNode("n2", "10.99.0.12", "10.244.2.0/24")
	wait.NoError(t, 20*time.Second, "the reason", func() error {
		w.syncAll()
		for _, r := range n1.agent.Status().Routes {
			if r.Node == "n2" && r.State == "waiting" && strings.Contains(r.Reason, "kind of tunnel in common") &&
				len(w.chassis()) == 2 {
				return nil
			}
		}
		return fmt.Errorf("%+v", n1.agent.Status().Routes)
	})
	w.encap = "geneve,vxlan"
	w.startAgent(n2)
	w.sync()
	a, c := w.addPod("a", "n1"), w.addPod("c", "n2")
	w.listen(c.space, "c", c.addr)
	w.reach(a.space, c.addr, 8080, "c")
}
