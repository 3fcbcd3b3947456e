package userspace

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

func sticky(f service.Frontend, timeout time.Duration) service.Frontend {
	f.Affinity, f.AffinityTimeout = true, timeout
	return f
}

// TestServices sends real packets to every kind of frontend, from pods, the host and outside.
// Row 1.75.
func TestServices(t *testing.T) {
	w := newWorld(t)
	w.serveTCP(w.pod1, "one", pod1IP+":8080")
	w.serveTCP(w.pod1, "one-admin", pod1IP+":9090")
	w.serveTCP(w.pod2, "two", pod2IP+":8080")
	one, two := pod1IP+":8080", pod2IP+":8080"
	local := front("", "node:30081/TCP", one)
	local.LocalOnly, local.Backends, local.InternalBackends = true, nil, local.Backends
	ranges := front("", "203.0.113.7:80", one)
	ranges.SourceRanges = []netip.Prefix{netip.MustParsePrefix(outIP + "/32")}
	p := w.start()
	p.set(
		state("default/web", front("", "10.96.0.20:80", one), front("", "10.96.0.20:81", pod1IP+":9090"),
			front("", "node:30080/TCP", one),
			front("", "203.0.113.5:80", one), front("", foreignIP+":80", one)),
		state("default/both", front("", "10.96.0.21:80", one, two)),
		state("default/sticky", sticky(front("", "10.96.0.22:80", one, two), time.Hour),
			sticky(front("", "10.96.0.22:81", one, two), time.Hour)),
		state("default/short", sticky(front("", "10.96.0.26:80", one, two), time.Nanosecond)),
		state("default/local", local, front("", "10.96.0.23:80", one)),
		state("default/empty", front("", "10.96.0.24:80")),
		state("default/ranges", ranges),
		state("default/self", front("", "10.96.0.25:80", two)),
	)
	gateway := "10.244.7.1" // the client address that a pod sees for connections through the host

	for _, c := range []struct{ what, from, to, want string }{
		{"cluster IP from a pod", w.pod2, "10.96.0.20:80", "one " + gateway},
		{"second port", w.pod2, "10.96.0.20:81", "one-admin " + gateway},
		{"cluster IP from the host", w.host, "10.96.0.20:80", "one " + gateway},
		{"node port from outside", w.out, hostIP + ":30080", "one " + gateway},
		{"node port from the host", w.host, hostIP + ":30080", "one " + gateway},
		{"node port at loopback", w.host, "127.0.0.1:30080", "one " + gateway},
		{"node port from a pod", w.pod2, hostIP + ":30080", "one " + gateway},
		{"external IP from outside", w.out, "203.0.113.5:80", "one " + gateway},
		{"an address that was there", w.out, foreignIP + ":80", "one " + gateway},
		{"itself as backend", w.pod2, "10.96.0.25:80", "two " + gateway},
		{"policy Local from a pod", w.pod2, hostIP + ":30081", "one " + gateway},
		{"policy Local from the host", w.host, hostIP + ":30081", "one " + gateway},
		{"source range from within", w.out, "203.0.113.7:80", "one " + gateway},
	} {
		w.expect(c.what, c.from, c.to, c.want)
	}
	w.refused("policy Local from outside without an endpoint here", w.out, hostIP+":30081")
	w.refused("no backends", w.pod1, "10.96.0.24:80")
	w.refused("source range from a pod", w.pod2, "203.0.113.7:80")
	w.refused("a port that no service has", w.pod1, "10.96.0.20:99")
	counts := func(from, to string) map[string]int {
		seen := map[string]int{}
		for range 10 {
			got, c, err := w.call(from, to)
			must(t, err)
			c.Close()
			seen[got]++
		}

		return seen
	}
	if seen := counts(w.pod1, "10.96.0.21:80"); len(seen) != 2 || seen["one "+gateway] != 5 {
		t.Errorf("spread %v", seen)
	}
	if seen := counts(w.pod1, "10.96.0.22:80"); len(seen) != 1 {
		t.Errorf("affinity: %v", seen)
	}
	if seen := counts(w.pod1, "10.96.0.26:80"); len(seen) != 2 {
		t.Errorf("affinity that has run out: %v", seen)
	}

	r, err := p.get()
	must(t, err)
	if len(r.Services) != 8 || r.Pass.Wanted != 13 || r.Pass.Programmed != 13 || !r.Pass.Ready {
		t.Errorf("%+v", r)
	}

	for name, s := range r.Services {
		if s.State != health.Programmed || s.Programmed != s.Frontends {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestDNS sends 10,000 queries over UDP, each from its own socket in a pod, 200 at a time, while backends come and go.
// Row 1.76.
func TestDNS(t *testing.T) {
	w := newWorld(t)
	w.serveUDP(w.pod1, "one", pod1IP+":53")
	w.serveUDP(w.pod2, "two", pod2IP+":53")
	one, two := pod1IP+":53", pod2IP+":53"
	p := w.start()
	p.set(state("kube-system/kube-dns", front("", "10.96.0.10:53/UDP", one, two)))
	const workers, each = 200, 50
	var lost atomic.Int64
	var byName sync.Map
	var times []time.Duration
	var mu sync.Mutex
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range each {
				query := fmt.Sprintf("q%d-%d", worker, i)
				begin := time.Now()
				name, err := w.ask(w.pod2, "10.96.0.10:53", query)
				took := time.Since(begin)
				if err != nil {
					lost.Add(1)
					t.Error(err)

					return
				}

				byName.Store(name, true)
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
			}
		})
	}

	group.Wait()
	slices.Sort(times)
	_, first := byName.Load("one")
	_, second := byName.Load("two")
	if lost.Load() > 0 || len(times) != workers*each || !first || !second {
		t.Fatalf("%d answers of %d; %v", len(times), workers*each, p.stats())
	}
	t.Logf("10000 queries: median %v, 99th percentile %v", times[len(times)/2], times[len(times)*99/100])
	// If one backend does not listen, another one answers the query.
	p.set(state("kube-system/kube-dns", front("", "10.96.0.10:53/UDP", pod1IP+":54", two)))

	for range 20 {
		if name, err := w.ask(w.pod1, "10.96.0.10:53", "?"); err != nil || name != "two" {
			t.Fatalf("%q, %v", name, err)
		}
	}
}

// ask sends a datagram and returns the name of the backend that answered.
func (w *world) ask(path, to, query string) (string, error) {
	c, err := w.dial(path, "udp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte(query)); err != nil {
		return "", err
	}
	buf := make([]byte, 1500)
	n, err := c.Read(buf)
	if err != nil {
		return "", err
	}
	name, rest, _ := strings.Cut(string(buf[:n]), " ")
	if rest != query {
		return "", fmt.Errorf("asked %q, answered %q", query, rest)
	}
	return name, nil
}

// TestChurn: endpoints come and go a hundred times, to none and back, while connections are open.
func TestChurn(t *testing.T) {
	w := newWorld(t)
	w.serveTCP(w.pod1, "one", pod1IP+":8080")
	w.serveTCP(w.pod2, "two", pod2IP+":8080")
	w.serveUDP(w.pod1, "one", pod1IP+":53")
	w.serveUDP(w.pod2, "two", pod2IP+":53")
	p := w.start()
	all := state("default/web", front("", "10.96.0.20:80", pod1IP+":8080", pod2IP+":8080"),
		front("", "10.96.0.20:53/UDP", pod1IP+":53", pod2IP+":53"))
	some := state("default/web", front("", "10.96.0.20:80", pod1IP+":8080"),
		front("", "10.96.0.20:53/UDP", pod1IP+":53"))
	none := state("default/web", front("", "10.96.0.20:80"), front("", "10.96.0.20:53/UDP"))
	p.set(all)
	var open []net.Conn
	for range 10 {
		_, c, err := w.call(w.pod2, "10.96.0.20:80")
		must(t, err)
		defer c.Close()
		open = append(open, c)
	}

	udp, err := w.dial(w.pod2, "udp", "10.96.0.20:53")
	must(t, err)
	defer udp.Close()

	for i := range 33 {
		p.set(some)
		if _, err := udp.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}

		buf := make([]byte, 100)
		if n, err := udp.Read(buf); err != nil || string(buf[:n]) != "one ?" {
			t.Fatalf("round %d: %q, %v", i, buf[:n], err)
		}

		p.set(none)
		w.refused("without endpoints", w.pod2, "10.96.0.20:80")
		p.set(all)
	}

	for i, c := range open {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	// The service may be deleted too: its address stays until the connections have ended.
	p.set(state("default/web"))
	w.refused("a service that is gone", w.pod2, "10.96.0.20:80")

	for i, c := range open {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}

		c.Close()
	}

	wait.True(t, limit, "the address to go",
		func() bool { return slices.Equal(w.addresses("svc0"), []string{foreignIP}) })
}

// TestFaults: a fault is reported for its own service only, and ends by itself.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	stop := w.serveTCP(w.host, "intruder", hostIP+":30080")
	w.serveTCP(w.pod1, "one", pod1IP+":8080")
	p := w.start()
	one, dead := pod1IP+":8080", pod2IP+":8080"
	p.set(
		state("default/taken", front("", "node:30080/TCP", one), front("", "10.96.0.20:80", one)),
		state("default/good", front("", "10.96.0.21:80", dead, one)),
		state("default/reserved", front("", outIP+":6443", one)),
		state("default/loop", front("", "127.0.0.1:80", one)),
	)

	for range 10 {
		w.expect("a backend that refuses beside one that does not", w.pod2, "10.96.0.21:80", "one 10.244.7.1")
	}
	w.expect("the service's other port", w.pod2, "10.96.0.20:80", "one 10.244.7.1")
	w.expect("loopback, where the port is free", w.host, "127.0.0.1:30080", "one 10.244.7.1")

	r, err := p.get()
	must(t, err)

	for name, reason := range map[string]string{"default/taken": ReasonPortInUse, "default/good": "",
		"default/reserved": ReasonAddressReserved, "default/loop": ReasonAddressRefused} {
		if s := r.Services[name]; s.Reason != reason || (reason == "") != (s.State == health.Programmed) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := r.Services["default/taken"]; s.Programmed != 1 || s.Frontends != 2 ||
		!strings.Contains(s.Message, hostIP+":30080") {
		t.Errorf("%+v", s)
	}

	stop()
	wait.True(t, limit, "the port to be taken", func() bool {
		r, err := p.get()
		must(t, err)
		return r.Services["default/taken"].State == health.Programmed
	})
	w.expect("the port that is free now", w.out, hostIP+":30080", "one 10.244.7.1")
	// Another program removes our addresses.

	for _, gone := range []string{"10.96.0.20", "10.96.0.21"} {
		w.in(w.host, func() error { return platform.Addresses{}.Remove("svc0", addr(gone)) })
	}

	begin := time.Now()
	wait.True(t, limit, "the addresses to be back", func() bool {
		return slices.Equal(w.addresses("svc0"), []string{"10.96.0.20", "10.96.0.21", foreignIP})
	})
	t.Logf("addresses back after %v", time.Since(begin))

	wait.True(t, limit, "the service to be back", func() bool {
		_, c, err := w.call(w.pod2, "10.96.0.20:80")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if r, err := p.get(); err != nil || r.Repaired != 2 {
		t.Errorf("%d repairs, %v", r.Repaired, err)
	}
}

// TestRestart: wanted addresses and those of others stay, the rest is removed. That holds after an orderly end and
// after kill -9.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.serveTCP(w.pod1, "one", pod1IP+":8080")
	one := pod1IP + ":8080"
	web := state("default/web", front("", "10.96.0.20:80", one), front("", foreignIP+":80", one))
	old := state("default/old", front("", "10.96.0.21:80", one))
	p := w.start()
	p.set(web, old)
	both := []string{"10.96.0.20", "10.96.0.21", foreignIP}
	if got := w.addresses("svc0"); !slices.Equal(got, both) {
		t.Fatalf("addresses %v", got)
	}
	p.signal(syscall.SIGKILL)
	if got := w.addresses("svc0"); !slices.Equal(got, both) {
		t.Fatalf("addresses after kill -9: %v", got)
	}
	events, end := w.watch()
	p = w.start()
	p.set(web)
	w.expect("after kill -9", w.pod2, "10.96.0.20:80", "one 10.244.7.1")
	wait.True(t, limit, "the old address to go",
		func() bool { return slices.Equal(w.addresses("svc0"), []string{"10.96.0.20", foreignIP}) })
	end()
	if got := events(); !slices.Equal(got, []string{"del 10.96.0.21"}) {
		t.Errorf("the restart did %v", got)
	}
	p.signal(syscall.SIGTERM)
	if got := w.addresses("svc0"); !slices.Equal(got, []string{foreignIP}) {
		t.Errorf("addresses after an orderly end: %v", got)
	}
	w.refused("after the end", w.out, hostIP+":30080")

	// The file is damaged: no address is changed, and the service works with those that are there.
	w.in(w.host, func() error { return platform.Addresses{}.Add("svc0", addr("10.96.0.20")) })
	must(t, os.WriteFile(w.state, []byte("{"), 0o644))
	p = w.start()
	p.set(web)
	w.expect("with a broken file", w.pod2, "10.96.0.20:80", "one 10.244.7.1")
	p.set(state("default/web"))
	p.signal(syscall.SIGTERM)
	if got := w.addresses("svc0"); !slices.Equal(got, []string{"10.96.0.20", foreignIP}) {
		t.Errorf("addresses that are not ours any more: %v", got)
	}
	if _, err := os.Stat(w.state + ".bad"); err != nil {
		t.Error(err)
	}
}

// watch records changes of addresses on the host until end.
func (w *world) watch() (events func() []string, end func()) {
	updates, stop := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	var index int
	must(w.t, platform.InNetns(w.host, func() error {
		link, err := netlink.LinkByName("svc0")
		if err != nil {
			return err
		}
		index = link.Attrs().Index
		return netlink.AddrSubscribe(updates, stop)
	}))

	var seen []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for u := range updates {
			if u.LinkIndex != index {
				continue // what the kernel, or somebody else, does with other interfaces
			}
			verb := "del"
			if u.NewAddr {
				verb = "add"
			}
			seen = append(seen, verb+" "+u.LinkAddress.IP.String())
		}
	}()
	return func() []string { <-done; return seen }, func() { close(stop) }
}

// TestIPv6 serves an IPv6 frontend beside an IPv4 one.
func TestIPv6(t *testing.T) {
	w := newWorld(t)
	w.serveTCP(w.host, "six", "[::1]:8080")
	p := w.start()
	six := front("", "[fd00:96::20]:80", "[::1]:8080")
	node := front("", "node:30080/TCP", "[::1]:8080")
	node.IPv6 = true
	p.set(state("default/six", six, node))
	w.expect("cluster IP", w.host, "[fd00:96::20]:80", "six ::1")
	w.expect("node port", w.host, "[::1]:30080", "six ::1")
	w.refused("node port of IPv4", w.host, "127.0.0.1:30080")
	p.signal(syscall.SIGTERM)
	if got := w.addresses("svc0"); !slices.Equal(got, []string{foreignIP}) {
		t.Errorf("addresses left: %v", got)
	}
}

// TestKilledAnywhere kills the proxy at random points while services change. The next proxy always ends with what the
// services want.
func TestKilledAnywhere(t *testing.T) {
	w := newWorld(t)
	w.serveTCP(w.pod1, "one", pod1IP+":8080")
	one := pod1IP + ":8080"
	states := func(round int) (out []service.State) {
		for i := range 30 {
			name := fmt.Sprintf("default/s%d", i)
			if (i+round)%3 == 0 {
				out = append(out, state(name))
				continue
			}
			out = append(out, state(name, front("", fmt.Sprintf("10.96.1.%d:80", i), one)))
		}

		return out
	}

	for round := range 12 {
		p := w.start()
		go func() {
			body := states(round)
			p.post(body)
		}()
		time.Sleep(time.Duration(round*round) * 400 * time.Microsecond) // somewhere in the middle
		p.signal(syscall.SIGKILL)
	}

	p := w.start()
	p.set(states(0)...)
	want := []string{foreignIP}

	for i := range 30 {
		if i%3 != 0 {
			want = append(want, fmt.Sprintf("10.96.1.%d", i))
		}
	}

	slices.Sort(want)
	if got := w.addresses("svc0"); !slices.Equal(got, want) {
		t.Errorf("addresses %v, want %v", got, want)
	}

	p.signal(syscall.SIGTERM)
	if got := w.addresses("svc0"); !slices.Equal(got, []string{foreignIP}) {
		t.Errorf("left %v", got)
	}
}
