package relay

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// receiveBuffer of a listening socket has room for a burst of some thousand small datagrams: the kernel counts
	// about 800 bytes for each.
	receiveBuffer = 4 << 20
	// maxPending bounds the datagrams of one flow that wait for its socket.
	maxPending = 64
	// keepUnanswered is the longest datagram that is kept for another attempt. It is longer than any DNS query.
	keepUnanswered = 4096
	// streamAge is the age from which a flow with traffic both ways counts as a stream, as in Linux' connection
	// tracking.
	streamAge = 2 * time.Second
)

// udpListener receives from clients, and its flows send their answers through it.
type udpListener struct {
	relay    *Relay
	frontend *frontend
	conn     *net.UDPConn

	mu     sync.RWMutex
	closed bool
	flows  map[netip.AddrPort]*flow
}

func (r *Relay) listenUDP(at Endpoint, f *frontend) (listener, error) {
	conn, err := net.ListenUDP(at.network(), net.UDPAddrFromAddrPort(at.AddrPort))
	if err != nil {
		return nil, err
	}
	enlarge(conn, receiveBuffer)
	return &udpListener{relay: r, frontend: f, conn: conn, flows: map[netip.AddrPort]*flow{}}, nil
}

func (l *udpListener) owner() *frontend { return l.frontend }

func (l *udpListener) close() {
	l.conn.Close()
	l.mu.Lock()
	l.closed = true
	flows := l.flows
	l.flows = nil
	l.mu.Unlock()
	for _, f := range flows {
		f.end()
	}
}

// configured ends the flows to backends that were removed.
func (l *udpListener) configured() {
	l.mu.RLock()
	var gone []*flow
	for _, f := range l.flows {
		if to := f.to(); to.IsValid() && !l.frontend.balancer.has(to) {
			gone = append(gone, f)
		}
	}
	l.mu.RUnlock()
	for _, f := range gone {
		f.end()
	}
}

// run receives datagrams. Nothing in it may block: datagrams are lost when the socket's buffer is full.
func (l *udpListener) run() error {
	buf := make([]byte, 64<<10)
	failures := 0
	for {
		n, client, err := l.conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			// Windows reports here that earlier answers were not delivered, and datagrams that are too long.
			if failures++; failures > 1000 {
				return err
			}
			continue
		}
		failures = 0
		if f := l.flow(client); f == nil || !f.send(buf[:n]) {
			l.frontend.dropped.Add(1)
		}
	}
}

// flow returns the client's flow, or a new one. It returns nil if there is no room.
func (l *udpListener) flow(client netip.AddrPort) *flow {
	l.mu.RLock()
	f := l.flows[client]
	l.mu.RUnlock()
	if f != nil {
		return f
	}

	f = &flow{listener: l, client: client, began: time.Now()}
	victim, ok := l.relay.flows.add(f)
	if !ok {
		return nil
	}
	if victim != nil {
		victim.end()
	}

	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.relay.flows.remove(f)
		return nil
	}
	l.flows[client] = f
	l.mu.Unlock()
	l.frontend.flowCount.Add(1)
	l.relay.work.Go(f.run)
	return f
}

// flow is one client's traffic with one backend.
type flow struct {
	listener *udpListener
	client   netip.AddrPort
	began    time.Time
	used     atomic.Int64 // how long after began a datagram last went either way, in nanoseconds
	answered atomic.Bool  // the latest datagram came from the backend

	mu      sync.Mutex
	ended   bool
	conn    *net.UDPConn // nil until a backend is chosen
	backend netip.AddrPort
	pending [][]byte // datagrams that came before conn was opened
	request []byte   // the latest datagram while it is not answered, for another backend
}

func (f *flow) to() netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.backend
}

// send forwards a datagram, or keeps it until there is a socket. It returns false if the datagram is lost.
func (f *flow) send(data []byte) bool {
	f.use()
	f.answered.Store(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	if f.conn == nil {
		if len(f.pending) >= maxPending {
			return false
		}
		f.pending = append(f.pending, slices.Clone(data))
		return true
	}
	return f.write(data)
}

// write sends a datagram. The caller holds mu.
func (f *flow) write(data []byte) bool {
	f.request = f.request[:0]
	if len(data) <= keepUnanswered {
		f.request = append(f.request, data...)
	}
	if _, err := f.conn.Write(data); err == nil {
		return true
	}
	// An error of an earlier datagram, which was refused, is reported once in place of sending this one. The second
	// call sends it.
	_, err := f.conn.Write(data)
	return err == nil
}

// run chooses a backend and carries its answers back, until the flow is idle for too long or ends. If a backend
// refuses and has not answered the latest datagram, another one is tried.
func (f *flow) run() {
	defer f.end()
	var tried []netip.AddrPort
	for len(tried) < maxTries {
		backend, ok := f.listener.frontend.balancer.Pick(f.client.Addr(), tried)
		if !ok {
			break
		}
		if len(tried) > 0 {
			f.listener.frontend.retries.Add(1)
		}
		tried = append(tried, backend)
		if f.connect(backend) && !f.carry() {
			return
		}
		f.listener.frontend.balancer.Refused(backend)
	}
	f.listener.frontend.dropped.Add(1)
}

// connect opens the socket and sends the pending datagrams, or the one that the backend before did not answer.
func (f *flow) connect(backend netip.AddrPort) bool {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(backend))
	if err != nil {
		return false
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		conn.Close()
		return true // carry ends at once
	}
	if !f.listener.frontend.balancer.has(backend) {
		conn.Close() // it was removed after it was chosen; from here on, configured would find the flow
		return false
	}

	old := f.conn
	f.conn, f.backend = conn, backend
	if old != nil {
		old.Close()
		if len(f.request) > 0 {
			f.write(slices.Clone(f.request))
		}
	}
	for _, data := range f.pending {
		f.write(data)
	}
	f.pending = nil
	return true
}

// carry passes answers on. It returns true if the backend refused and there is a datagram for another one.
func (f *flow) carry() (again bool) {
	f.mu.Lock()
	conn := f.conn
	f.mu.Unlock()
	if conn == nil {
		return false
	}

	in, err := newReceiver(conn)
	if err != nil {
		return false
	}

	for {
		if err := conn.SetReadDeadline(f.deadline()); err != nil {
			return false
		}
		err := in.next(f.answer)
		var timeout net.Error
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			return false
		case errors.As(err, &timeout) && timeout.Timeout():
			if !time.Now().Before(f.deadline()) {
				return false
			}
		default:
			f.mu.Lock()
			defer f.mu.Unlock()
			return !f.ended && len(f.request) > 0
		}
	}
}

// answer sends one datagram of the backend to the client.
func (f *flow) answer(data []byte) {
	f.use()
	f.answered.Store(true)
	f.mu.Lock()
	f.request = f.request[:0]
	f.mu.Unlock()
	if _, err := f.listener.conn.WriteToUDPAddrPort(data, f.client); err != nil && !errors.Is(err, net.ErrClosed) {
		f.listener.frontend.dropped.Add(1)
	}
}

// use notes that a datagram goes now. The clock is the one that nobody sets.
func (f *flow) use() { f.used.Store(int64(time.Since(f.began))) }

// last returns when a datagram last went.
func (f *flow) last() time.Time { return f.began.Add(time.Duration(f.used.Load())) }

// deadline returns when the flow ends if no more datagrams come.
func (f *flow) deadline() time.Time {
	last := f.last()
	if f.answered.Load() && last.Sub(f.began) > streamAge {
		return last.Add(f.listener.relay.opts.StreamIdle)
	}
	return last.Add(f.listener.relay.opts.FlowIdle)
}

// end closes the flow. The client's next datagram begins another one.
func (f *flow) end() {
	f.mu.Lock()
	already := f.ended
	f.ended = true
	if f.conn != nil {
		f.conn.Close()
	}
	f.pending, f.request = nil, nil
	f.mu.Unlock()
	if already {
		return
	}
	f.listener.relay.flows.remove(f)
	f.listener.mu.Lock()
	if f.listener.flows[f.client] == f {
		delete(f.listener.flows, f.client)
	}
	f.listener.mu.Unlock()
}
