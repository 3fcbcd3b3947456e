package disk

import (
	"time"

	"porthole.dev/porthole/internal/retry"
)

// busyBackoff is the wait between attempts on a file that another program holds. After busyAttempts, which take 1.3 s,
// the error counts.
var busyBackoff = retry.Backoff{First: 5 * time.Millisecond}

const busyAttempts = 9

// RetryBusy calls try again while another program holds the file, as virus scanners do on Windows for a moment.
func RetryBusy(try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil || !IsBusy(err) || attempt == busyAttempts {
			return err
		}
		time.Sleep(busyBackoff.Wait(attempt))
	}
}
