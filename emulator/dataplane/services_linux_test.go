package dataplane

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
)

func TestPacketsNodePort(t *testing.T) { // D-10
	w := newWorld(t)
	p1, far := w.a.pod(11), w.b.pod(11)
	remote := w.a.remote("10.244.2.11")
	w.a.desired.LoadBalancers = []desired.LoadBalancer{
		lb("local", "", 30001, 8080, false, w.a.epID(11)), lb("remote", "", 30002, 8080, false, remote),
		lb("etp-local", "", 30003, 8080, true, w.a.epID(11)),
	}
	w.a.apply()
	w.b.apply()
	w.serve(p1, "near", 8080)
	w.serve(far, "far", 8080)
	w.expect("out", "10.99.0.21:30001", "near 10.99.0.21")
	w.expect("out", "10.99.0.21:30002", "far 10.99.0.21")
	w.expect("out", "10.99.0.21:30003", "near 10.99.0.1")
	w.expect("b", "10.99.0.21:30002", "far 10.99.0.21")
	w.expect("a", "10.99.0.21:30001", "refused")
	w.expect("a", "127.0.0.1:30001", "refused")
	if got := w.get("out", "tcp", "10.99.0.22:30003"); got != "timeout" {
		t.Errorf("a node without the load balancer answered %q", got)
	}
}

func TestPacketsHostPort(t *testing.T) { // D-8
	w := newWorld(t)
	p := w.a.pod(11, func(e *desired.Endpoint) {
		e.PortMappings = []desired.PortMapping{{Protocol: 6, ExternalPort: 8088, InternalPort: 80},
			{Protocol: 17, ExternalPort: 8088, InternalPort: 80}}
	})
	w.a.apply()
	w.serve(p, "p", 80)
	w.expect("out", "10.99.0.21:8088", "p 10.99.0.1")
	w.expect("a", "10.99.0.21:8088", "refused") // the host itself needs the flag
	q := w.a.pod(13, func(e *desired.Endpoint) {
		e.PortMappings = []desired.PortMapping{{Protocol: 6, ExternalPort: 8089, InternalPort: 80, LocalRouted: true},
			{Protocol: 17, ExternalPort: 8089, InternalPort: 80, LocalRouted: true}}
	})
	w.a.apply()
	w.serve(q, "q", 80)
	w.expect("out", "10.99.0.21:8089", "q 10.99.0.1")
	w.expect("b", "10.99.0.21:8089", "q 10.99.0.22")
	w.expect("a", "10.99.0.21:8089", "q 10.99.0.21")
	w.expect("a", "127.0.0.1:8089", "refused")

	w.a.pod(12, func(e *desired.Endpoint) {
		e.PortMappings = []desired.PortMapping{{Protocol: 6, ExternalPort: 8088, InternalPort: 81}}
	})
	res, err := w.a.dp.Apply(w.ctx, w.a.desired)
	must(t, err)
	if res[w.a.epID(12)] == nil {
		t.Error("a second mapping of the same port was accepted")
	}
	w.expect("out", "10.99.0.21:8088", "p 10.99.0.1")
}

func TestPacketsHairpin(t *testing.T) { // D-9
	w := newWorld(t)
	plain := w.a.pod(11)
	loop := w.a.pod(12, func(e *desired.Endpoint) {
		e.OutboundNAT = append(e.OutboundNAT, desired.OutboundNAT{Destinations: prefixList("10.244.1.12/32")})
	})
	w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("one", "10.96.0.1", 80, 80, true, w.a.epID(11)),
		lb("two", "10.96.0.2", 80, 80, true, w.a.epID(12))}
	w.a.apply()
	w.serve(plain, "plain", 80)
	w.serve(loop, "loop", 80)
	w.expect(plain, "10.96.0.1:80", "timeout")
	w.expect(loop, "10.96.0.2:80", "loop 10.99.0.21")
	w.expect(plain, "10.96.0.2:80", "loop 10.244.1.11")
}

func TestPacketsOutboundDestinations(t *testing.T) { // D-5
	w := newWorld(t)
	p := w.a.pod(11, func(e *desired.Endpoint) {
		e.OutboundNAT = []desired.OutboundNAT{{Exceptions: prefixList("10.99.0.0/24")},
			{Exceptions: prefixList(outside + "/32")}}
	})
	q := w.a.pod(12, func(e *desired.Endpoint) {
		e.OutboundNAT = []desired.OutboundNAT{{Destinations: prefixList(outside + "/32")}}
	})
	w.a.apply()
	w.serve("out", "out", 80)
	w.expect(p, "10.99.0.1:80", "out 10.244.1.11")
	w.expect(p, outside+":80", "out 10.244.1.11")
	w.expect(q, "10.99.0.1:80", "out 10.244.1.12")
	w.expect(q, outside+":80", "out 10.99.0.21")
}

func TestPacketsAffinity(t *testing.T) { // D-11
	w := newWorld(t)
	client := w.a.pod(11)
	var backends []string
	servers := map[string]string{}
	for i := 20; i < 24; i++ {
		servers[w.a.pod(i)] = fmt.Sprint("s", i)
		backends = append(backends, w.a.epID(i))
	}

	spread, sticky := lb("spread", "10.96.0.1", 80, 80, true, backends...), lb("sticky", "10.96.0.2", 80, 80, true,
		backends...)
	for i := range sticky.Ports {
		sticky.Ports[i].Distribution = 2
	}
	w.a.desired.LoadBalancers = []desired.LoadBalancer{spread, sticky}
	w.a.apply()
	for pod, name := range servers {
		w.serve(pod, name, 80)
	}
	count := map[string]int{}
	const n = 1200
	for range n {
		count[strings.Fields(w.get(client, "tcp", "10.96.0.1:80"))[0]]++
	}
	for s, c := range count {
		if c < n/4-n/14 || c > n/4+n/14 {
			t.Errorf("server %s got %d of %d connections", s, c, n)
		}
	}

	first := w.get(client, "tcp", "10.96.0.2:80")
	for range 50 {
		w.expect(client, "10.96.0.2:80", first)
	}
	// A backend that this client does not use goes; the client stays where it was.
	for i := range backends {
		if !strings.HasPrefix(first, fmt.Sprint("s", 20+i)) {
			w.a.desired.LoadBalancers[1].Backends = append(append([]string{}, backends[:i]...), backends[i+1:]...)
			break
		}
	}

	w.a.apply()
	w.expect(client, "10.96.0.2:80", first)
	// Others come: each client stays where it was, over a restart, too.
	clients := map[string]string{client: first}
	for i := 30; i < 36; i++ {
		clients[w.a.pod(i)] = ""
	}
	w.a.apply()
	for pod, was := range clients {
		if was == "" {
			clients[pod] = w.get(pod, "tcp", "10.96.0.2:80")
		}
	}

	for i := 24; i < 30; i++ {
		w.serve(w.a.pod(i), fmt.Sprint("s", i), 80) // before it has an address there is only TCP
		backends = append(backends, w.a.epID(i))
	}

	w.a.desired.LoadBalancers[1].Backends = backends
	w.replaced()
	w.a.apply()
	for pod, was := range clients {
		for range 3 {
			if got := w.get(pod, "tcp", "10.96.0.2:80"); got != was {
				t.Errorf("%s moved from %s to %s", pod, was, got)
			}
		}
	}
}

func TestPacketsNoPing(t *testing.T) { // D-20
	w := newWorld(t)
	p := w.a.pod(11)
	w.a.pod(12)
	w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("l", "10.96.0.1", 80, 80, true, w.a.epID(12))}
	w.a.apply()
	ping := func(addr string) error {
		return platform.InNetns(w.path(p), func() error {
			c, err := net.Dial("ip4:icmp", addr)
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			if _, err := c.Write([]byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}); err != nil { // echo request and its checksum
				return err
			}
			_, err = c.Read(make([]byte, 100))
			return err
		})
	}

	if err := ping("10.244.1.12"); err != nil {
		t.Errorf("pinging a pod: %v", err)
	}
	if ping("10.96.0.1") == nil {
		t.Error("a virtual address answered a ping")
	}
}

func TestPacketsACL(t *testing.T) { // D-16
	w := newWorld(t)
	free := w.a.pod(11)
	guarded := w.a.pod(12, func(e *desired.Endpoint) {
		e.ACLs = []desired.ACL{
			{In: true, Allow: true, Priority: 100, Protocols: []uint8{6},
				LocalPorts: []desired.PortRange{{First: 80, Last: 80}, {First: 8000, Last: 8010}},
				Remote:     prefixList("10.244.1.11/32", "10.244.2.0/24")},
			{In: true, Priority: 200},
			{Priority: 150, Protocols: []uint8{6, 17}, RemotePorts: []desired.PortRange{{First: 81, Last: 90}}},
			{Priority: 160, Protocols: []uint8{1, 252}},
		}
	})

	w.a.apply()
	for port, where := range map[int]string{80: guarded, 8005: guarded, 8020: guarded} {
		w.serve(where, "g", port)
	}
	w.serve(free, "f", 80)
	w.serve(free, "f", 85)
	check := func(from, proto, addr, want string) {
		t.Helper()
		if got := w.get(from, proto, addr); got != want {
			t.Errorf("%s from %s to %s: got %q, want %q", proto, from, addr, got, want)
		}
	}

	check(free, "tcp", "10.244.1.12:80", "g 10.244.1.11")
	check(free, "tcp", "10.244.1.12:8005", "g 10.244.1.11")
	check(free, "tcp", "10.244.1.12:8020", "timeout")
	check(free, "udp", "10.244.1.12:80", "timeout")
	check("a", "tcp", "10.244.1.12:80", "timeout")
	check("out", "tcp", "10.244.1.12:80", "timeout")
	w.expect(guarded, "10.244.1.11:80", "f 10.244.1.12") // out is allowed, and the answer comes back
	w.expect(guarded, "10.244.1.11:85", "timeout")
	w.a.desired.Endpoints[1].ACLs = nil
	w.a.apply()
	check(free, "udp", "10.244.1.12:80", "g 10.244.1.11")
}

func TestPacketsChange(t *testing.T) { // D-21, D-24
	w := newWorld(t)
	client := w.a.pod(11)
	one, two := w.a.pod(12), w.a.pod(13)
	w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("l", "10.96.0.1", 53, 80, true, w.a.epID(12)),
		lb("other", "10.96.0.2", 53, 80, false, w.a.epID(12))}
	w.a.apply()
	w.serve(one, "one", 80)
	w.serve(two, "two", 80)
	open := func(proto, addr string) net.Conn {
		c, err := w.dial(client, proto, addr)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}

	says := func(c net.Conn, want string) {
		t.Helper()
		if got, err := ask(c); err != nil || got != want {
			t.Errorf("got %q %v, want %q", got, err, want)
		}
	}

	tcp, udp, other := open("tcp", "10.96.0.1:53"), open("udp", "10.96.0.1:53"), open("udp", "10.96.0.2:53")
	for _, c := range []net.Conn{tcp, udp} {
		says(c, "one 10.244.1.11")
	}
	says(other, "one 10.99.0.21")
	for _, backends := range [][]string{{w.a.epID(12), w.a.epID(13)}, {w.a.epID(13)}} {
		w.a.desired.LoadBalancers[0].Backends = backends
		w.a.apply()
		says(tcp, "one 10.244.1.11")
	}

	says(udp, "two 10.244.1.11")
	w.a.desired.LoadBalancers = w.a.desired.LoadBalancers[1:]
	w.a.apply()
	says(tcp, "one 10.244.1.11")
	says(other, "one 10.99.0.21")
	w.expect(client, "10.96.0.1:53", "timeout")
}

// A restarted daemon adopts what is right, mends what is not, and leaves foreign things alone.
func TestPacketsRestart(t *testing.T) {
	w := newWorld(t)
	client, server := w.a.pod(11), w.a.pod(12)
	w.a.desired.Namespaces = append(w.a.desired.Namespaces, desired.Namespace{ID: "own-" + w.id})
	w.a.desired.Endpoints = append(w.a.desired.Endpoints,
		desired.Endpoint{ID: "own-ep", Network: netID, Namespace: "own-" + w.id, Addrs: prefixList("10.244.1.30/24"),
			ACLs:         []desired.ACL{{In: true, Allow: true, Priority: 1, Protocols: []uint8{6}}},
			PortMappings: []desired.PortMapping{{Protocol: 6, ExternalPort: 99, InternalPort: 9}}})
	sticky := lb("sticky", "10.96.0.3", 80, 80, false, w.a.epID(12))
	sticky.Ports[0].Distribution, sticky.SourceVIP = 1, netip.MustParseAddr("10.244.1.40")
	w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("l", "10.96.0.1", 80, 80, true, w.a.epID(12)),
		lb("n", "", 30001, 80, false, w.a.epID(12)), sticky}
	w.nft("add table ip foreign")
	w.a.apply()
	w.serve(server, "one", 80)
	conn, err := w.dial(client, "tcp", "10.96.0.1:80")
	must(t, err)
	defer conn.Close()
	again := w.restarted()
	if got, err := ask(conn); err != nil || got != "one 10.244.1.11" {
		t.Errorf("open connection after restart: %q %v", got, err)
	}

	w.nft("delete element ip hns dsr { 10.96.0.1 . tcp . 80 }")
	w.nft("flush chain ip hns frompod")
	drift, err := again.Verify(w.ctx, w.a.desired)
	must(t, err)
	if len(drift) < 3 {
		t.Errorf("damage was not seen: %v", drift)
	}
	w.a.apply()
	w.expect(client, "10.96.0.1:80", "one 10.244.1.11")
	_, err = again.Apply(w.ctx, desired.State{})
	must(t, err)
	if rest := w.snapshot(); leftOfHNS(rest) || !strings.Contains(rest, "table ip foreign") {
		t.Errorf("after removal of everything: %s", rest)
	}
	if platform.NetnsExists(kernel.OwnNetns("own-" + w.id)) {
		t.Error("the own namespace was left")
	}
}

// restarted puts another daemon in place of host a's, as a restart does, and applies the same once more: it changes
// nothing in the kernel.
func (w *world) restarted() *DataPlane {
	w.t.Helper()
	before := w.snapshot()
	again := w.replaced()
	w.a.apply()
	if after := w.snapshot(); after != before {
		w.t.Errorf("a restart changed the kernel:\n%s\n--- before:\n%s", after, before)
	}
	return again
}

// replaced is the new daemon that host a has from now on.
func (w *world) replaced() *DataPlane {
	again, err := New(Options{Netns: w.path("a")})
	must(w.t, err)
	w.t.Cleanup(again.Close)
	w.a.dp = again
	return again
}

// leftOfHNS reports whether a snapshot shows something of HNS. The host's own IP stack stays.
func leftOfHNS(snapshot string) bool {
	before, stack, _ := strings.Cut(snapshot, "table inet "+hoststack.Table+" {")
	_, after, _ := strings.Cut(stack, "\n}")
	return strings.Contains(before+after, "hns")
}

// snapshot shows links with their indexes and rules with their handles: a thing made again looks different.
func (w *world) snapshot() string {
	var out bytes.Buffer
	for _, args := range [][]string{{"ip", "-o", "-d", "addr"}, {"nft", "-a", "list", "ruleset"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout = &out
		must(w.t, platform.StartInNetns(w.path("a"), cmd))
		must(w.t, cmd.Wait())
	}
	// The kernel gives and checks link-local addresses in its own time.
	return strings.ReplaceAll(linkLocal.ReplaceAllString(out.String(), ""), " tentative", "")
}

var linkLocal = regexp.MustCompile(`(?m)^.* inet6 fe80:.*\n`)

func (w *world) nft(command string) {
	w.t.Helper()
	cmd := exec.Command("nft", command)
	must(w.t, platform.StartInNetns(w.path("a"), cmd))
	must(w.t, cmd.Wait())
}

// No packet of an open connection is lost while load balancers and pods come and go.
func TestPacketsScale(t *testing.T) {
	w := newWorld(t)
	client, server := w.a.pod(11), w.a.pod(12)
	d := &w.a.desired
	for i := range 500 {
		w.a.remote(fmt.Sprintf("10.244.%d.%d", 3+i/200, 1+i%200))
	}
	for i := range 2000 {
		var backends []string
		for b := range 5 {
			backends = append(backends, d.Endpoints[2+(i*5+b)%500].ID)
		}
		d.LoadBalancers = append(d.LoadBalancers,
			lb(fmt.Sprint("lb", i), fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), 80, 8080, i%2 == 0, backends...))
	}

	start := time.Now()
	w.apply(w.a)
	bulk := time.Since(start)
	w.serve(server, "one", 80)
	d.LoadBalancers = append(d.LoadBalancers, lb("new", "10.96.99.1", 80, 80, true, w.a.epID(12)))
	start = time.Now()
	w.apply(w.a)
	one := time.Since(start)
	w.expect(client, "10.96.99.1:80", "one 10.244.1.11")
	p := w.a.pod(13)
	start = time.Now()
	w.apply(w.a)
	pod := time.Since(start)
	w.expect(p, "10.96.99.1:80", "one 10.244.1.13")
	w.replaced()
	start = time.Now()
	w.apply(w.a)
	adopt := time.Since(start)
	t.Logf("2000 load balancers x 5: all %v, one more %v, one pod more %v, adopted %v", bulk, one, pod, adopt)
	if one > 3*time.Second || pod > 3*time.Second || bulk > 40*time.Second { // wide, because the machine may be busy
		t.Errorf("too slow: all %v, one more %v, one pod more %v", bulk, one, pod)
	}
}

// apply without the check for drift.
func (w *world) apply(n *node) {
	w.t.Helper()
	res, err := n.dp.Apply(w.ctx, n.desired)
	must(w.t, err)
	for id, err := range res {
		w.t.Errorf("object %s: %v", id, err)
	}
}
