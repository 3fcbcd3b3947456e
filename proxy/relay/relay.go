package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"porthole.dev/porthole/hns"
)

// Relay serves frontends until it is closed. It is safe for concurrent use; no method but Close waits for the network.
type Relay struct {
	opts   Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	slots  chan struct{} // one for each open TCP connection
	flows  flowTable
	work   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	frontends map[string]*frontend
	listeners map[Endpoint]listener
	pairs     map[*pair]struct{}
}

// listener is a tcpListener or a udpListener.
type listener interface {
	run() error // returns nil after close
	close()
	owner() *frontend
	configured() // is called when the frontend's configuration changed
}

// frontend is what the listeners of one name share.
type frontend struct {
	name     string
	balancer *Balancer
	slots    chan struct{} // its share of the connections
	// flows is guarded by the flow table's lock.
	flows map[*flow]struct{}

	conns, retries, failed, flowCount, dropped atomic.Uint64
}

// ErrPortTaken: another program, or another frontend, listens there already.
var ErrPortTaken = errors.New("the port is in use by another program")

// New returns a relay without frontends.
func New(opts Options) *Relay {
	opts = opts.withDefaults()
	r := &Relay{
		opts: opts, slots: make(chan struct{}, opts.MaxConns), flows: flowTable{max: opts.MaxFlows},
		frontends: map[string]*frontend{}, listeners: map[Endpoint]listener{}, pairs: map[*pair]struct{}{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Set creates or changes the frontend of that name. Open connections stay. UDP flows to removed backends end, and the
// next datagrams of their clients go to other backends.
func (r *Relay) Set(name string, c Config) {
	r.mu.Lock()
	f := r.frontends[name]
	if f == nil {
		f = &frontend{name: name, balancer: newBalancer(r.opts.Inside, time.Now),
			slots: make(chan struct{}, max(1, r.opts.MaxConns/2)), flows: map[*flow]struct{}{}}
		r.frontends[name] = f
	}
	f.balancer.Set(c)
	var own []listener
	for _, l := range r.listeners {
		if l.owner() == f {
			own = append(own, l)
		}
	}
	r.mu.Unlock()
	for _, l := range own {
		l.configured()
	}
}

// Listen opens a listener for the frontend. It does nothing if the frontend has that listener already. The error is
// ErrPortTaken if another program or frontend has the port.
func (r *Relay) Listen(name string, at Endpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.frontends[name]
	switch old := r.listeners[at]; {
	case r.closed:
		return errors.New("the relay is closed")
	case f == nil:
		return fmt.Errorf("listening on %s: there is no frontend %q", at, name)
	case old != nil && old.owner() == f:
		return nil
	case old != nil:
		return fmt.Errorf("listening on %s: frontend %q has it: %w", at, old.owner().name, ErrPortTaken)
	}

	l, err := r.open(at, f)
	if err != nil {
		return err
	}
	r.listeners[at] = l
	r.work.Go(func() {
		if err := l.run(); err != nil && r.remove(at, l) && r.opts.Ended != nil {
			r.opts.Ended(at, err)
		}
	})
	return nil
}

// open opens the socket of a listener. It turns the systems' different errors for a port in use into ErrPortTaken.
func (r *Relay) open(at Endpoint, f *frontend) (l listener, err error) {
	switch at.Protocol {
	case hns.TCP:
		l, err = r.listenTCP(at, f)
	case hns.UDP:
		l, err = r.listenUDP(at, f)
	default:
		err = errors.ErrUnsupported
	}

	switch {
	case err == nil:
		return l, nil
	case portTaken(err):
		return nil, fmt.Errorf("listening on %s: %w", at, ErrPortTaken)
	}
	return nil, fmt.Errorf("listening on %s: %w", at, err)
}

// Unlisten closes a listener. Its open TCP connections stay, its UDP flows end. It does nothing if there is no such
// listener.
func (r *Relay) Unlisten(at Endpoint) {
	r.mu.Lock()
	l := r.listeners[at]
	delete(r.listeners, at)
	r.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// remove forgets a listener that failed. It returns false if that was done before.
func (r *Relay) remove(at Endpoint, l listener) bool {
	r.mu.Lock()
	mine := r.listeners[at] == l
	if mine {
		delete(r.listeners, at)
	}
	r.mu.Unlock()
	l.close()
	return mine
}

// Drop forgets a frontend and closes its listeners. Its open TCP connections stay.
func (r *Relay) Drop(name string) {
	r.mu.Lock()
	f := r.frontends[name]
	delete(r.frontends, name)
	var own []listener
	for at, l := range r.listeners {
		if l.owner() == f {
			own = append(own, l)
			delete(r.listeners, at)
		}
	}
	r.mu.Unlock()
	for _, l := range own {
		l.close()
	}
}

// State returns what the relay does now.
func (r *Relay) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := State{Frontends: map[string]Config{}, Listeners: map[Endpoint]string{}, Open: map[netip.Addr]int{}}
	for name, f := range r.frontends {
		s.Frontends[name] = f.balancer.Config()
	}
	for at, l := range r.listeners {
		s.Listeners[at] = l.owner().name
	}
	for p := range r.pairs {
		s.Open[p.local]++
	}
	return s
}

// Stats returns the counters of each frontend.
func (r *Relay) Stats() map[string]Stats {
	r.mu.Lock()
	frontends := maps.Clone(r.frontends)
	r.mu.Unlock()
	out := map[string]Stats{}
	for name, f := range frontends {
		out[name] = Stats{Conns: f.conns.Load(), Retries: f.retries.Load(), Failed: f.failed.Load(),
			Flows:   f.flowCount.Load(),
			Dropped: f.dropped.Load(), Open: len(f.slots) + r.flows.count(f)}
	}
	return out
}

// Close ends everything, open connections too, and waits until all goroutines have ended.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	listeners := maps.Clone(r.listeners)
	pairs := maps.Clone(r.pairs)
	clear(r.listeners)
	r.mu.Unlock()
	r.cancel()
	for _, l := range listeners {
		l.close()
	}
	for p := range pairs {
		p.close()
	}
	r.work.Wait()
}
