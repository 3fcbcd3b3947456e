package supervise

import "time"

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 5 * time.Second
	// A process that ran this long starts again with the first back-off.
	healthyAfter = 30 * time.Second
)

// nextBackoff returns the pause before the next start. The first pause is short, so that a killed process is back at once. Each further
// one is twice as long; a process that ran for long enough begins again with the first.
func nextBackoff(last, ran time.Duration) time.Duration {
	if last == 0 || ran >= healthyAfter {
		return backoffFirst
	}
	return min(2*last, backoffMost)
}
