// Package wakeup lets any number of goroutines wake one loop, without ever blocking and without a queue: the loop
// looks at everything anyway, so that one pending wake-up is as good as many.
package wakeup

import (
	"context"
	"time"
)

// Signal is a wake-up for one loop. Make it with New. It is safe for concurrent use.
type Signal chan struct{}

// New returns a Signal without a pending wake-up.
func New() Signal { return make(Signal, 1) }

// Wake makes the loop's next receive from the Signal succeed. It never blocks; it does nothing if a wake-up is pending.
func (s Signal) Wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Pause waits for d and returns true. It returns false as soon as ctx ends.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
