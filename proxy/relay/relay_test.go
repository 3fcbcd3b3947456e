package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/testkit/wait"
)

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newRelay returns a relay that is closed at the end of the test; nothing of it may be left then.
func newRelay(t testing.TB, opts Options) *Relay {
	r := New(opts)
	t.Cleanup(func() {
		done := make(chan struct{})
		go func() {
			r.Close()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(limit):
			t.Error("the relay did not end")
		}
	})
	return r
}

// free returns a loopback address on which no socket listens. That of TCP is not 127.0.0.1: connections that the test
// or the relay opens have that address, and could take the port in the meantime.
func free(t testing.TB, protocol hns.Protocol) Endpoint {
	t.Helper()
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	if protocol == hns.TCP {
		at.IP = net.IPv4(127, 0, 0, 2)
	}
	l, err := net.ListenTCP("tcp4", at)
	must(t, err)
	defer l.Close()
	return Endpoint{protocol, addrPort(l.Addr())}
}

// serveTCP runs a backend; handle gets each connection and the backend's number of it.
func serveTCP(t testing.TB, handle func(c *net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return addrPort(l.Addr())
}

// named runs a backend that sends its name and then echoes.
func named(t testing.TB, name byte) netip.AddrPort {
	return serveTCP(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte{name})
		_, _ = io.Copy(c, c)
	})
}

// serveUDP runs a backend that answers each datagram with its name and the same.
func serveUDP(t testing.TB, name byte) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	enlarge(c, receiveBuffer)
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf[1:])
			if err != nil {
				return
			}
			buf[0] = name
			_, _ = c.WriteToUDPAddrPort(buf[:n+1], from)
		}
	}()
	return addrPort(c.LocalAddr())
}

func serve(t testing.TB, r *Relay, protocol hns.Protocol, c Config) Endpoint {
	t.Helper()
	at := free(t, protocol)
	r.Set("test", c)
	must(t, r.Listen("test", at))
	return at
}

func dial(t testing.TB, at Endpoint) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(at.AddrPort))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(limit)))
	return c
}

// wasReset reports whether an error of a connection is its reset by the other end. Windows has a number of its own,
// WSAECONNRESET of winerror.h.
func wasReset(err error) bool {
	const windows = syscall.Errno(10054)
	return errors.Is(err, syscall.ECONNRESET) || runtime.GOOS == "windows" && errors.Is(err, windows)
}

// readUntilReset connects to a relay that resets the connection, and returns what was read and the client's error. The
// relay must take a connection before it can reset it, so that the reset follows the kernel's answer to the client at
// once. On a busy machine both have arrived before the client's connect returns: Linux then reports the reset as the
// error of connect.
func readUntilReset(t testing.TB, at Endpoint) ([]byte, error) {
	t.Helper()
	c, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(at.AddrPort))
	if errors.Is(err, syscall.ECONNRESET) {
		return nil, err
	}
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(limit)))
	return io.ReadAll(c)
}

func greeting(t testing.TB, c net.Conn) byte {
	t.Helper()
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		t.Fatalf("reading the greeting: %v", err)
	}
	return b[0]
}

// streams are the ways of copying. The relay uses the one of this system.
var streams = map[string]func(to, from *net.TCPConn) (int64, error){
	"system": stream,
	"pooled": func(to, from *net.TCPConn) (int64, error) { return pooledCopy(to, from, nil) },
	"waiting": func(to, from *net.TCPConn) (int64, error) { // as on Windows, with a wait that never has to
		return pooledCopy(to, from, func() error { return nil })
	},
}

func TestStreamCopiesAll(t *testing.T) {
	payload := make([]byte, 3<<20+17)

	for i := range payload {
		payload[i] = byte(rand.Uint32())
	}

	for name, copyAll := range streams {
		t.Run(name, func(t *testing.T) {
			got := make(chan []byte, 1)
			sink := serveTCP(t, func(c *net.TCPConn) {
				data, _ := io.ReadAll(c)
				got <- data
			})
			middle := serveTCP(t, func(from *net.TCPConn) {
				to, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(sink))
				if err != nil {
					t.Error(err)

					return
				}

				defer to.Close()
				if n, err := copyAll(to, from); err != nil || n != int64(len(payload)) {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
			c := dial(t, Endpoint{hns.TCP, middle})
			_, err := c.Write(payload)
			must(t, err)
			must(t, c.CloseWrite())
			select {
			case data := <-got:
				if !bytes.Equal(data, payload) {
					t.Errorf("%d bytes arrived of %d, or other ones", len(data), len(payload))
				}
			case <-time.After(limit):
				t.Fatal("nothing arrived")
			}
		})
	}
}

// TestHalfClose: the client ends its direction first and still gets what the backend sends afterwards.
func TestHalfClose(t *testing.T) {
	r := newRelay(t, Options{})
	backend := serveTCP(t, func(c *net.TCPConn) {
		data, err := io.ReadAll(c)
		if err == nil {
			_, _ = fmt.Fprintf(c, "got %s", data)
		}
	})
	c := dial(t, serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{backend}}))
	_, err := c.Write([]byte("all"))
	must(t, err)
	must(t, c.CloseWrite())
	answer, err := io.ReadAll(c)
	if err != nil || string(answer) != "got all" {
		t.Errorf("%q, %v", answer, err)
	}
	wait.True(t, limit, "the end of the connection", func() bool { return r.Stats()["test"].Open == 0 })
}

// TestTCPIdle: a connection on which nothing moves ends with a reset, and gives its place to another. One that moves a
// byte now and then, in one direction, stays. A program that stands still on a busy machine moves none.
func TestTCPIdle(t *testing.T) {
	const idle, turns = 200 * time.Millisecond, 50
	for range turns {
		pause, err := tcpIdle(t, idle)
		if err == nil {
			return
		}
		if pause < idle/2 {
			t.Fatal(err)
		}
		t.Logf("this program stood still for %v, and again: %v", pause, err)
	}
	t.Errorf("it stood still in each of %d turns", turns)
}

// tcpIdle has a silent connection and a busy one, and returns the longest pause of the busy one, and what is wrong
// with it.
func tcpIdle(t *testing.T, idle time.Duration) (pause time.Duration, err error) {
	t.Helper()
	r := newRelay(t, Options{MaxConns: 4, TCPIdle: idle})
	backend := serveTCP(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	at := serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{backend}})
	began := time.Now()
	silent, busy := dial(t, at), dial(t, at)
	ended := make(chan error, 1)
	go func() {
		_, err := silent.Read(make([]byte, 1))
		ended <- err
	}()

	tick := time.NewTicker(idle / 8)
	defer tick.Stop()
	var end error
	last := began
	for end == nil {
		select {
		case end = <-ended:
		case <-tick.C:
		}
		_, err := busy.Write([]byte("x"))
		pause, last = max(pause, time.Since(last)), time.Now()
		if err != nil {
			return pause, fmt.Errorf("the busy connection ended after %s: %w", time.Since(began), err)
		}
		if time.Since(began) > limit {
			t.Fatal("the silent connection does not end")
		}
	}
	if took := time.Since(began); !wasReset(end) || took < idle {
		t.Errorf("the silent connection ended after %s: %v", took, end)
	}
	wait.True(t, limit, "the silent connection's place", func() bool { return r.Stats()["test"].Open <= 1 })
	_, err = busy.Write([]byte("x"))
	if open := r.Stats()["test"].Open; err == nil && open != 1 {
		err = fmt.Errorf("%d connections are open, want the busy one", open)
	}
	return max(pause, time.Since(last)), err
}

// TestReset: a reset by one side is a reset for the other side, not an orderly end.
func TestReset(t *testing.T) {
	r := newRelay(t, Options{})
	t.Run("by the backend", func(t *testing.T) {
		backend := serveTCP(t, func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1))
			reset(c)
		})
		c := dial(t, serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{backend}}))
		_, err := c.Write([]byte("x"))
		must(t, err)

		if data, err := io.ReadAll(c); err == nil {
			t.Errorf("an orderly end after %q", data)
		}
	})
	t.Run("by the client", func(t *testing.T) {
		seen := make(chan error, 1)
		backend := serveTCP(t, func(c *net.TCPConn) {
			_, _ = c.Write([]byte("x"))
			_, err := io.ReadAll(c)
			seen <- err
		})
		c := dial(t, serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{backend}}))
		greeting(t, c)
		reset(c)

		select {
		case err := <-seen:
			if err == nil {
				t.Error("the backend saw an orderly end")
			}
		case <-time.After(limit):
			t.Error("the backend saw nothing")
		}
	})
	wait.True(t, limit, "the end of the connections", func() bool { return r.Stats()["test"].Open == 0 })
}

// TestRefusingBackends: while one backend accepts connections, clients do not notice that others refuse.
func TestRefusingBackends(t *testing.T) {
	r := newRelay(t, Options{})
	// No socket listens on these. A port that was free a moment ago may be given to the backend, or to the relay
	// itself.
	dead1, dead2 := netip.MustParseAddrPort("127.77.0.1:1"), netip.MustParseAddrPort("127.77.0.2:1")
	at := serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{dead1, dead2, named(t, 'a')}, Affinity: time.Hour})
	for range 20 {
		if got := greeting(t, dial(t, at)); got != 'a' {
			t.Fatalf("greeted by %c", got)
		}
	}
	if s := r.Stats()["test"]; s.Conns != 20 || s.Failed != 0 || s.Retries > 2 {
		t.Errorf("%+v: affinity must keep to the backend that took the first connection", s)
	}
	r.Set("test", Config{Backends: []netip.AddrPort{dead1, dead2}})
	if data, err := readUntilReset(t, at); err == nil {
		t.Errorf("an orderly end after %q without any backend", data)
	}
	wait.True(t, limit, "the failure to be counted", func() bool { return r.Stats()["test"].Failed == 1 })
}

func TestSpreadAndChange(t *testing.T) {
	r := newRelay(t, Options{})
	backends := []netip.AddrPort{named(t, 'a'), named(t, 'b'), named(t, 'c')}
	at := serve(t, r, hns.TCP, Config{Backends: backends})
	count, open := map[byte]int{}, map[byte]*net.TCPConn{}

	for range 30 {
		c := dial(t, at)
		name := greeting(t, c)
		count[name]++
		open[name] = c
	}
	if count['a'] != 10 || count['b'] != 10 || count['c'] != 10 {
		t.Errorf("spread %v, want 10 each", count)
	}
	// All backends are removed from the frontend, and then the listener. Open connections stay.
	r.Set("test", Config{Backends: backends[:1]})

	for range 5 {
		if name := greeting(t, dial(t, at)); name != 'a' {
			t.Errorf("greeted by %c, which is none any more", name)
		}
	}

	r.Unlisten(at)
	r.Drop("test")

	for name, c := range open {
		_, err := c.Write([]byte{name})
		must(t, err)
		if got := greeting(t, c); got != name {
			t.Errorf("connection to %c echoed %c", name, got)
		}
	}
	if _, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(at.AddrPort)); err == nil {
		t.Error("the closed listener takes connections")
	}
	if s := r.State(); len(s.Frontends) != 0 || len(s.Listeners) != 0 || s.Open[at.Addr()] != 35 {
		t.Errorf("state %+v", s)
	}
}

// TestBackpressure: while a client does not read, the relay does not read from the backend, so memory is bounded by
// the sockets' buffers.
func TestBackpressure(t *testing.T) {
	r := newRelay(t, Options{})
	var sent atomic.Int64
	backend := serveTCP(t, func(c *net.TCPConn) {
		block := make([]byte, 1<<20)
		for sent.Load() < 1<<30 {
			n, err := c.Write(block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	c := dial(t, serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{backend}}))
	greeting(t, c)

	last, quiet := int64(-1), 0
	wait.True(t, limit, "the backend to be held back", func() bool {
		if now := sent.Load(); now == last {
			quiet++
		} else {
			last, quiet = now, 0
		}
		return quiet > 200
	})
	if last > 64<<20 {
		t.Errorf("%d MB went nowhere", last>>20)
	}
}

// TestConnectionLimit: clients over the limit wait until others leave. Another frontend has its own share.
func TestConnectionLimit(t *testing.T) {
	r := newRelay(t, Options{MaxConns: 4})
	at := serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{named(t, 'a')}})
	first, second := dial(t, at), dial(t, at)
	greeting(t, first)
	greeting(t, second)
	third := dial(t, at)
	must(t, third.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Fatal("a third connection of half of four was served")
	}
	other := free(t, hns.TCP)
	r.Set("other", Config{Backends: []netip.AddrPort{named(t, 'b')}})
	must(t, r.Listen("other", other))
	if got := greeting(t, dial(t, other)); got != 'b' {
		t.Errorf("the other frontend: greeted by %c", got)
	}
	first.Close()
	must(t, third.SetReadDeadline(time.Now().Add(limit)))
	if got := greeting(t, third); got != 'a' {
		t.Errorf("the third: greeted by %c", got)
	}
}

func TestListenErrors(t *testing.T) {
	r := newRelay(t, Options{})
	at := serve(t, r, hns.TCP, Config{})
	must(t, r.Listen("test", at)) // again is success
	r.Set("other", Config{})
	if err := r.Listen("other", at); !errors.Is(err, ErrPortTaken) {
		t.Errorf("a port of another frontend: %v", err)
	}
	foreign := Endpoint{hns.TCP, named(t, 'f')}
	if err := r.Listen("test", foreign); !errors.Is(err, ErrPortTaken) {
		t.Errorf("a port of another program: %v", err)
	}
	if err := r.Listen("nobody", free(t, hns.TCP)); err == nil {
		t.Error("a frontend that is not there can be listened for")
	}
	if err := r.Listen("test", Endpoint{hns.TCP, netip.MustParseAddrPort("192.0.2.1:80")}); err == nil ||
		errors.Is(err, ErrPortTaken) {
		t.Errorf("an address that is not ours: %v", err)
	}
	r.Unlisten(foreign) // not there is success
	r.Close()
	if err := r.Listen("test", free(t, hns.TCP)); err == nil {
		t.Error("a closed relay listens")
	}
}

func ask(t testing.TB, c *net.UDPConn, text string) (answer string, err error) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	buf := make([]byte, 64<<10)
	must(t, c.SetReadDeadline(time.Now().Add(limit)))
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

func dialUDP(t testing.TB, at Endpoint) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(at.AddrPort))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestUDPNoneLost sends 10,000 queries (500 in short mode) from as many sockets, 500 at a time; each must be answered,
// with its own answer.
func TestUDPNoneLost(t *testing.T) {
	r := newRelay(t, Options{})
	at := serve(t, r, hns.UDP, Config{Backends: []netip.AddrPort{serveUDP(t, 'a'), serveUDP(t, 'b')}})
	var group sync.WaitGroup
	var lost, a atomic.Int64
	begin, each := time.Now(), 20
	if testing.Short() {
		each = 1
	}

	for worker := range 500 {
		group.Go(func() {
			for i := range each {
				c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(at.AddrPort))
				if err != nil {
					t.Error(err)

					return
				}

				query := fmt.Sprintf("query %d of %d", i, worker)
				answer, err := ask(t, c, query)
				c.Close()
				if err != nil || answer[1:] != query {
					lost.Add(1)
				} else if answer[0] == 'a' {
					a.Add(1)
				}
			}
		})
	}

	group.Wait()
	t.Logf("%v; %+v", time.Since(begin), r.Stats()["test"])
	// A client's port may be used again while its flow exists, so the turns are not exactly even.
	if all := int64(500 * each); lost.Load() != 0 || a.Load() < all*4/10 || a.Load() > all*6/10 {
		t.Errorf("%d of %d were lost, %d answered by the first backend", lost.Load(), all, a.Load())
	}
}

// TestUDPBurst sends 2,000 datagrams from 200 sockets without waiting for any answer.
func TestUDPBurst(t *testing.T) {
	r := newRelay(t, Options{})
	at := serve(t, r, hns.UDP, Config{Backends: []netip.AddrPort{serveUDP(t, 'a')}})
	var conns []*net.UDPConn
	for range 200 {
		conns = append(conns, dialUDP(t, at))
	}
	for i := range 10 {
		for _, c := range conns {
			_, err := fmt.Fprintf(c, "%d", i)
			must(t, err)
		}
	}
	for _, c := range conns {
		must(t, c.SetReadDeadline(time.Now().Add(limit)))
		for range 10 {
			if _, err := c.Read(make([]byte, 100)); err != nil {
				t.Fatalf("an answer is missing: %v; %+v", err, r.Stats()["test"])
			}
		}
	}
}

// TestUDPSizes: the largest and the smallest datagram pass.
func TestUDPSizes(t *testing.T) {
	r := newRelay(t, Options{})
	at := serve(t, r, hns.UDP, Config{Backends: []netip.AddrPort{serveUDP(t, 'a')}})
	c := dialUDP(t, at)
	for _, size := range []int{0, 1, 1400, 4096, 9000, 65000} {
		want := string(bytes.Repeat([]byte{'x'}, size))
		if answer, err := ask(t, c, want); err != nil || answer != "a"+want {
			t.Errorf("%d bytes: %d came back, %v", size, len(answer), err)
		}
	}
}

func TestUDPMoves(t *testing.T) {
	r := newRelay(t, Options{})
	first, second := serveUDP(t, 'a'), serveUDP(t, 'b')
	at := serve(t, r, hns.UDP, Config{Backends: []netip.AddrPort{first}})
	c := dialUDP(t, at)
	expect := func(when, want string) {
		t.Helper()
		if answer, err := ask(t, c, "?"); err != nil || answer != want {
			t.Errorf("%s: %q, %v; want %q", when, answer, err, want)
		}
	}
	expect("at first", "a?")

	r.Set("test", Config{Backends: []netip.AddrPort{first, second}})

	for range 5 {
		expect("with one more backend", "a?")
	}

	r.Set("test", Config{Backends: []netip.AddrPort{second}})
	expect("with the other backend only", "b?")
	if s := r.Stats()["test"]; s.Flows != 2 || s.Open != 1 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}

	r.Unlisten(at)
	if s := r.Stats()["test"]; s.Open != 0 {
		t.Errorf("flows of a closed listener: %+v", s)
	}
}

// TestUDPIdle: idle flows end by themselves, streams later than others.
func TestUDPIdle(t *testing.T) {
	r := newRelay(t, Options{FlowIdle: 300 * time.Millisecond, StreamIdle: time.Hour})
	at := serve(t, r, hns.UDP, Config{Backends: []netip.AddrPort{serveUDP(t, 'a')}})
	c := dialUDP(t, at)
	_, err := ask(t, c, "1")
	must(t, err)
	wait.True(t, limit, "the flow's end", func() bool { return r.Stats()["test"].Open == 0 })

	// On a busy machine this program may stand still for longer than FlowIdle, and a new flow begins: then the age is
	// that one's.
	flows, begin := r.Stats()["test"].Flows, time.Now()
	wait.True(t, time.Minute, "a flow to become a stream", func() bool {
		_, err := ask(t, c, "2")
		must(t, err)
		if now := r.Stats()["test"].Flows; now != flows {
			flows, begin = now, time.Now()
		}
		return time.Since(begin) > streamAge+100*time.Millisecond
	})
	time.Sleep(600 * time.Millisecond) // longer than FlowIdle, which must not count any more
	if s := r.Stats()["test"]; s.Open != 1 {
		t.Errorf("the stream's flow is not there: %+v", s)
	}
}

// TestFlowLimit: with more clients than room, new clients are served in place of answered ones.
func TestFlowLimit(t *testing.T) {
	r := newRelay(t, Options{MaxFlows: 20})
	at := serve(t, r, hns.UDP, Config{Backends: []netip.AddrPort{serveUDP(t, 'a')}})
	for i := range 100 {
		if answer, err := ask(t, dialUDP(t, at), "?"); err != nil || answer != "a?" {
			t.Fatalf("client %d: %q, %v", i, answer, err)
		}
		if s := r.Stats()["test"]; s.Open > 10 {
			t.Fatalf("%d flows, half of 20 are allowed", s.Open)
		}
	}
	// Another frontend takes the rest of the room, and wants more.
	other := free(t, hns.UDP)
	r.Set("other", Config{Backends: []netip.AddrPort{serveUDP(t, 'b')}})
	must(t, r.Listen("other", other))
	for range 30 {
		if answer, err := ask(t, dialUDP(t, other), "?"); err != nil || answer != "b?" {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	if a, b := r.Stats()["test"].Open, r.Stats()["other"].Open; a+b > 20 {
		t.Errorf("%d and %d flows of 20", a, b)
	}
}

// TestUDPNoBackend: a frontend without backends keeps no flow.
func TestUDPNoBackend(t *testing.T) {
	r := newRelay(t, Options{})
	at := serve(t, r, hns.UDP, Config{})
	c := dialUDP(t, at)
	wait.True(t, limit, "datagrams to be dropped", func() bool {
		_, err := c.Write([]byte("?")) // again: one datagram may be lost
		must(t, err)
		s := r.Stats()["test"]
		return s.Dropped > 0 && s.Open == 0
	})
}

// TestClose: open connections and waiting ones end.
func TestClose(t *testing.T) {
	r := New(Options{})
	at := serve(t, r, hns.TCP, Config{Backends: []netip.AddrPort{named(t, 'a')}})
	u := free(t, hns.UDP)
	must(t, r.Listen("test", u))
	r.Set("udp", Config{Backends: []netip.AddrPort{serveUDP(t, 'a')}})
	r.Unlisten(u)
	must(t, r.Listen("udp", u))
	c := dial(t, at)
	greeting(t, c)
	_, err := ask(t, dialUDP(t, u), "?")
	must(t, err)

	done := make(chan struct{})
	go func() {
		r.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatal("Close does not return")
	}

	if _, err := io.ReadAll(c); err != nil && errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if s := r.State(); len(s.Open) != 0 || len(s.Listeners) != 0 {
		t.Errorf("%+v", s)
	}
}
