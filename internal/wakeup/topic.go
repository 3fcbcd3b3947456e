package wakeup

import "sync"

// Topic passes events on to any number of subscribers. The zero value has none. It is safe for concurrent use.
type Topic[E any] struct {
	mu   sync.Mutex
	subs map[chan E]bool
}

// behind is how many events a subscriber may leave unread.
const behind = 64

// Send gives e to each subscriber. It never blocks: a subscriber that has left 64 events unread loses e.
func (t *Topic[E]) Send(e E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.subs {
		select {
		case c <- e:
		default:
		}
	}
}

// Subscribe returns the events that are sent until stop is called. The channel is never closed.
func (t *Topic[E]) Subscribe() (events <-chan E, stop func()) {
	c := make(chan E, behind)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subs == nil {
		t.subs = map[chan E]bool{}
	}
	t.subs[c] = true
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.subs, c)
	}
}
