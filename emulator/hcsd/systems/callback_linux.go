package systems

import (
	"sync"

	"porthole.dev/porthole/emulator/hcsd"
)

// Callback is one that a program has registered: it is told what happens to a system, or to a process of it.
type Callback struct {
	all *callbacks
	id  string
	pid uint32 // 0: of the system

	mu    sync.Mutex
	queue []hcsd.Notification
	ready chan struct{} // has a slot
}

// Ready has a value if Next may have something.
func (c *Callback) Ready() <-chan struct{} { return c.ready }

// Next returns what has happened since the last call, the oldest first.
func (c *Callback) Next() []hcsd.Notification {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.queue
	c.queue = nil
	return list
}

// add never waits: a program that does not read gets what is kept for it later.
func (c *Callback) add(n hcsd.Notification) {
	c.mu.Lock()
	c.queue = append(c.queue, n)
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// End ends the callback.
func (c *Callback) End() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	delete(c.all.open, c)
}

// callbacks are those that have not ended. The zero value has none.
type callbacks struct {
	mu   sync.Mutex
	open map[*Callback]bool
}

// register begins a callback, which is told the past first.
func (all *callbacks) register(id string, pid uint32, past []hcsd.Notification) *Callback {
	c := &Callback{all: all, id: id, pid: pid, ready: make(chan struct{}, 1)}
	for _, n := range past {
		c.add(n)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open == nil {
		all.open = map[*Callback]bool{}
	}
	all.open[c] = true
	return c
}

// tell sends notifications to the callbacks that they are for.
func (all *callbacks) tell(list []hcsd.Notification) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, n := range list {
		for c := range all.open {
			if c.id == n.System && c.pid == n.Pid {
				c.add(n)
			}
		}
	}
}

// Register begins a callback of a system, or with a pid of a process of it. What happened before is told first. The
// caller ends it.
func (s *Store) Register(id string, pid uint32) (*Callback, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, _, err := s.get(id)
	if err == nil && pid != 0 {
		_, err = sys.Process(pid)
	}
	if err != nil {
		return nil, err
	}
	return s.callbacks.register(id, pid, sys.Past(pid)), nil
}
