// Package retry says how long to wait before something that failed is tried again. It reads no clock, so that pure
// packages can use it.
package retry

import "time"

// Backoff is a wait that doubles with every failure.
type Backoff struct {
	// First is the wait after the first failure.
	First time.Duration
	// Max bounds the wait; zero means no bound other than the largest Duration.
	Max time.Duration
}

// Wait returns the wait after the given number of failures in a row: First after one, then twice as long each time,
// never more than Max. Without a failure there is no wait.
func (b Backoff) Wait(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}

	wait := b.First
	for range failures - 1 {
		if b.Max > 0 && wait >= b.Max || wait > maxDuration/2 {
			break
		}
		wait *= 2
	}

	if b.Max > 0 {
		wait = min(wait, b.Max)
	}
	return wait
}

const maxDuration = time.Duration(1<<63 - 1)
