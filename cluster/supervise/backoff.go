package supervise

import (
	"time"

	"porthole.dev/porthole/internal/retry"
)

// The first pause is short, so that a killed process is back at once.
var backoff = retry.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}

// A process that ran this long starts again with the first pause.
const healthyAfter = 30 * time.Second

// endsInARow returns how often a process has ended too soon in a row, after an end that followed the given time of
// running.
func endsInARow(before int, ran time.Duration) int {
	if ran >= healthyAfter {
		return 1
	}
	return before + 1
}
