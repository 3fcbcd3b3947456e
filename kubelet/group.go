package kubelet

import "sync"

// group runs goroutines, and no new ones once it is closed. So a callback that comes in late, of the API or of a full
// check, does not start anything while the kubelet waits for the last ones to end.
type group struct {
	all sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// Go runs f in a goroutine, unless the group is closed.
func (g *group) Go(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.all.Go(f)
	}
}

// Close makes Go do nothing from now on.
func (g *group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Wait waits until no goroutine of the group runs. While others call Go, close the group first.
func (g *group) Wait() { g.all.Wait() }
