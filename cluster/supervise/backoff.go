package supervise

import "time"

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 5 * time.Second
	// A process that ran this long starts again with the first back-off.
	healthyAfter = 30 * time.Second
)

// nextBackoff gives the pause before the next start: the first one is short so that a killed process is back at once,
// then it doubles, and a long run forgives.
func nextBackoff(last, ran time.Duration) time.Duration {
	if last == 0 || ran >= healthyAfter {
		return backoffFirst
	}
	return min(2*last, backoffMost)
}
