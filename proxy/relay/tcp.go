package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"porthole.dev/porthole/internal/retry"
)

// acceptBackoff is the pause after accepting failed.
var acceptBackoff = retry.Backoff{First: 5 * time.Millisecond, Max: time.Second}

type tcpListener struct {
	relay    *Relay
	frontend *frontend
	net      *net.TCPListener
}

func (r *Relay) listenTCP(at Endpoint, f *frontend) (listener, error) {
	l, err := net.ListenTCP(at.network(), net.TCPAddrFromAddrPort(at.AddrPort))
	if err != nil {
		return nil, err
	}
	return &tcpListener{relay: r, frontend: f, net: l}, nil
}

func (l *tcpListener) owner() *frontend { return l.frontend }
func (l *tcpListener) close()           { l.net.Close() }
func (l *tcpListener) configured()      {}

// run accepts connections. After an error that is not the listener's end, such as no descriptors left, it pauses.
func (l *tcpListener) run() error {
	failures := 0
	for {
		conn, err := l.net.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			failures++
			if !l.relay.sleep(acceptBackoff.Wait(failures)) {
				return nil
			}
			continue
		}

		failures = 0
		if !l.relay.acquire(l.frontend) {
			conn.Close()
			return nil
		}
		l.relay.work.Go(func() {
			defer l.relay.release(l.frontend)
			l.relay.serve(conn, l.frontend)
		})
	}
}

// acquire waits for room for one more connection: first in the frontend's share, then in the relay's. It returns false
// if the relay is closed.
func (r *Relay) acquire(f *frontend) bool {
	select {
	case f.slots <- struct{}{}:
	case <-r.ctx.Done():
		return false
	}
	select {
	case r.slots <- struct{}{}:
		return true
	case <-r.ctx.Done():
		<-f.slots
		return false
	}
}

func (r *Relay) release(f *frontend) {
	<-r.slots
	<-f.slots
}

func (r *Relay) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pair is a client's connection and the one to its backend.
type pair struct {
	client, backend *net.TCPConn
	local           netip.Addr // that the client connected to
	idle            time.Duration
	moved           atomic.Int64 // when bytes were seen to move last, in either direction: nanoseconds of Unix time
	once            sync.Once
}

// serve carries one connection until it ends.
func (r *Relay) serve(client *net.TCPConn, f *frontend) {
	remote := addrPort(client.RemoteAddr())
	local := addrPort(client.LocalAddr())
	backend := r.dial(f, remote.Addr())
	if backend == nil {
		f.failed.Add(1)
		reset(client)
		return
	}

	f.conns.Add(1)
	p := &pair{client: client, backend: backend, local: local.Addr(), idle: r.opts.TCPIdle}
	p.moved.Store(time.Now().UnixNano())
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.pairs[p] = struct{}{}
	}
	r.mu.Unlock()

	if !closed {
		p.run()
	}
	p.close()
	r.mu.Lock()
	delete(r.pairs, p)
	r.mu.Unlock()
}

// dial connects to a backend; nil if none takes the connection.
func (r *Relay) dial(f *frontend, client netip.Addr) *net.TCPConn {
	dialer := net.Dialer{Timeout: r.opts.DialTimeout}
	var tried []netip.AddrPort
	for len(tried) < maxTries {
		backend, ok := f.balancer.Pick(client, tried)
		if !ok {
			return nil
		}
		conn, err := dialer.DialTCP(r.ctx, "tcp", netip.AddrPort{}, backend)
		if err == nil {
			return conn
		}
		if r.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return nil
		}
		f.retries.Add(1)
		f.balancer.Refused(backend)
		tried = append(tried, backend)
	}
	return nil
}

// maxTries bounds the backends that are tried for one connection: clients give up before many of them time out.
const maxTries = 5

// run copies both ways until both have ended.
func (p *pair) run() {
	done := make(chan struct{})
	go func() {
		p.half(p.backend, p.client)
		close(done)
	}()
	p.half(p.client, p.backend)
	<-done
}

// half copies one direction and passes its end on. An error resets both sides.
func (p *pair) half(to, from *net.TCPConn) {
	err := p.carry(to, from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		p.once.Do(func() {
			reset(p.client)
			reset(p.backend)
		})
	}
}

// carry copies one direction until its end. It is an error if no byte moves in either direction for the idle time, or
// if the other side takes none for as long: such a connection would hold its place among those of the relay for ever.
func (p *pair) carry(to, from *net.TCPConn) error {
	for {
		now := time.Now()
		full := now.Add(p.idle)
		// A wait for something to read ends first. After it the copy goes on; after a write that was cut off it could
		// not.
		if err := errors.Join(from.SetReadDeadline(now.Add(p.idle/2)), to.SetWriteDeadline(full)); err != nil {
			return err
		}
		n, err := stream(to, from)
		if n > 0 {
			p.moved.Store(time.Now().UnixNano())
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(full) {
			return err
		}
		if time.Since(time.Unix(0, p.moved.Load())) >= p.idle {
			return fmt.Errorf("no byte has moved for %s: %w", p.idle, err)
		}
	}
}

func (p *pair) close() {
	p.once.Do(func() {
		p.client.Close()
		p.backend.Close()
	})
}

// reset closes a connection so that the other side sees a reset and not an orderly end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // it only fails if the socket is closed
	c.Close()
}

// addrPort returns an IPv4 address as such, even if the socket is an IPv6 one.
func addrPort(a net.Addr) netip.AddrPort {
	ap := a.(interface{ AddrPort() netip.AddrPort }).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
