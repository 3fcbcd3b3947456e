package serve

import (
	"context"
	"io"
	"net"
	"sync"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// notification is what a callback of HcnRegisterServiceCallback gets.
type notification struct {
	kind uint32 // one of package wire
	data string
}

// subscribers of notifications.
type subscribers struct {
	mu   sync.Mutex
	open map[chan notification]bool
}

// add begins a subscription. Its channel is closed when the service ends, or when nobody reads from it.
func (s *subscribers) add() chan notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[chan notification]bool{}
	}
	// A thousand notifications wait for a reader; it loses its subscription with the next one.
	c := make(chan notification, 1024)
	s.open[c] = true
	return c
}

// remove may come after the subscription has ended.
func (s *subscribers) remove(c chan notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(c)
}

// end runs under mu.
func (s *subscribers) end(c chan notification) {
	if s.open[c] {
		delete(s.open, c)
		close(c)
	}
}

// endAll is the end of the service.
func (s *subscribers) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		s.end(c)
	}
}

// notify sends to every subscriber without waiting. One that does not read fast enough loses its subscription instead
// of single notifications, so that it knows that it must list everything again.
func (s *subscribers) notify(list []notification) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		for _, n := range list {
			select {
			case c <- n:
			default:
				s.end(c)
			}
		}
	}
}

// notifications of a change. The form of their data is unverified, no. 31.
func notifications(old *hnsd.State, c hnsd.Change) []notification {
	var list []notification
	add := func(id string, kinds ...uint32) {
		for _, k := range kinds {
			list = append(list, notification{k, `{"ID":"` + id + `"}`})
		}
	}

	// HNS reports that an object was created or deleted, and not that it changed.
	for _, o := range c.Put {
		if _, was := old.Get(o.Kind, o.ID); was {
			continue
		}
		switch o.Kind {
		case hnsd.Network:
			add(o.ID, wire.NetworkPreCreate, wire.NetworkCreate)
		case hnsd.Namespace:
			add(o.ID, wire.NamespaceCreate)
		}
	}

	for _, r := range c.Drop {
		switch r.Kind {
		case hnsd.Network:
			add(r.ID, wire.NetworkPreDelete, wire.NetworkDelete)
		case hnsd.Namespace:
			add(r.ID, wire.NamespaceDelete)
		}
	}
	return list
}

// streamNotifications answers wire.Notify until either side ends it: one answer that the subscription stands, then one
// for each notification.
func (s *Service) streamNotifications(ctx context.Context, who caller, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if e := s.life.refusal(); e != nil {
		_, _ = conn.Write(failure(e).Frame()) // the connection ends in any case
		return
	}
	// The registration can be made to fail by a rule, with this one action.
	fault := s.faults.Match(who.program, "HcnRegisterServiceCallback", func() string { return "" })
	if fault.Action == "fail" {
		_, _ = conn.Write(failure(&hnsd.Error{Code: fault.Code, Text: fault.Text}).Frame()) // as above
		return
	}
	c := s.subscribers.add()
	defer s.subscribers.remove(c)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, conn) // it ends with the connection
	}()

	if _, err := conn.Write(wire.Answer{}.Frame()); err != nil {
		return
	}
	for {
		select {
		case n, ok := <-c:
			if !ok {
				return
			}
			if _, err := conn.Write(wire.Answer{Result: n.kind, Text: [2]*string{&n.data}}.Frame()); err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
