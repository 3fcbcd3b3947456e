//go:build !linux

package serve

import (
	"context"
	"time"
)

// sleepUntil waits for a moment, or until ctx ends.
func sleepUntil(ctx context.Context, end time.Time) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
