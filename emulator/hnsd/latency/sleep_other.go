//go:build !linux

package latency

import (
	"context"
	"time"
)

// SleepUntil waits for a moment, or until ctx ends.
func SleepUntil(ctx context.Context, end time.Time) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
