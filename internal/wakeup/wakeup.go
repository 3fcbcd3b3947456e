// Package wakeup lets any number of goroutines wake one loop, without ever blocking and without a queue: the loop looks at
// everything anyway, so that one pending wake-up is as good as many.
package wakeup

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
