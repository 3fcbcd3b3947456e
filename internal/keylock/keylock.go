// Package keylock has locks by name.
package keylock

import (
	"context"
	"sync"
)

// Set is a set of locks by name. The zero value has none. It is safe for concurrent use.
type Set struct {
	mu   sync.Mutex
	open map[string]*one
}

type one struct {
	held    chan struct{} // of one slot, full while somebody has the lock
	waiting int           // who has the lock or waits for it
}

// Lock takes the lock called key, or returns the error of ctx if that ends first.
func (s *Set) Lock(ctx context.Context, key string) (unlock func(), err error) {
	s.mu.Lock()
	if s.open == nil {
		s.open = map[string]*one{}
	}
	l := s.open[key]
	if l == nil {
		l = &one{held: make(chan struct{}, 1)}
		s.open[key] = l
	}
	l.waiting++
	s.mu.Unlock()

	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.waiting--; l.waiting == 0 {
			delete(s.open, key)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
