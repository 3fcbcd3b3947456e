package serve

import (
	"bufio"
	"context"
	"net"
	"sync"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wire"
)

// subscriber is one callback of a program.
type subscriber struct {
	id  string
	pid uint32

	mu    sync.Mutex
	queue []hcsd.Notification
	ready chan struct{} // has a slot
}

// add never waits: a program that does not read gets what is kept for it later.
func (s *subscriber) add(n hcsd.Notification) {
	s.mu.Lock()
	s.queue = append(s.queue, n)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *subscriber) take() []hcsd.Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.queue
	s.queue = nil
	return list
}

// notify makes a connection a stream of notifications. What happened before is sent first.
func (s *Service) notify(ctx context.Context, conn net.Conn, r *bufio.Reader, c call) {
	sub := &subscriber{id: c.Text[0], pid: c.pid(), ready: make(chan struct{}, 1)}
	s.mu.Lock()
	sys, err := s.systems.Get(sub.id)
	if err == nil && sub.pid != 0 {
		_, err = sys.Process(sub.pid)
	}
	if err == nil {
		s.subscribers[sub] = true
		for _, n := range sys.Past(sub.pid) {
			sub.add(n)
		}
	}
	s.mu.Unlock()
	if err != nil {
		_, _ = conn.Write(failure(err).Frame()) // the program sees the end of the connection otherwise
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, sub)
	}()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = r.Peek(1) // a subscriber sends nothing: this is its end
	}()
	if _, err := conn.Write(wire.Answer{}.Frame()); err != nil {
		return
	}
	for {
		for _, n := range sub.take() {
			if _, err := conn.Write(wire.Answer{Result: n.Type, Handle: uint64(n.Status)}.Frame()); err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-sub.ready:
		}
	}
}
