package latency

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// SleepUntil waits for a moment, or until ctx ends. The runtime's timers are late by up to a millisecond (its poller
// counts in those), as much as the shortest latency to inject: the last stretch is left to the kernel.
func SleepUntil(ctx context.Context, end time.Time) {
	const coarse = 3 * time.Millisecond
	if left := time.Until(end); left > coarse {
		timer := time.NewTimer(left - coarse)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
	left := time.Until(end)
	if left <= 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // the default of 50 µs would be added to each wait
	for left > 0 {
		t := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&t, nil) // a signal ends it early, and the loop goes on
		left = time.Until(end)
	}
}
