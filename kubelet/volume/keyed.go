package volume

import (
	"context"
	"sync"
)

// keyed is a set of locks by name. The zero value has none. It is safe for concurrent use.
type keyed struct {
	mu   sync.Mutex
	open map[string]*oneLock
}

type oneLock struct {
	held    chan struct{} // of one slot, full while somebody has the lock
	waiting int           // who has the lock or waits for it
}

// lock takes the lock called key, or returns the error of ctx if that ends first.
func (k *keyed) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.open == nil {
		k.open = map[string]*oneLock{}
	}
	l := k.open[key]
	if l == nil {
		l = &oneLock{held: make(chan struct{}, 1)}
		k.open[key] = l
	}
	l.waiting++
	k.mu.Unlock()

	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.waiting--; l.waiting == 0 {
			delete(k.open, key)
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
