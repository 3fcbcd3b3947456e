// Package loop repeats passes over everything that a part of a program keeps right.
//
//	wake-up ── Settle, Apart ─┐
//	Period (full check) ──────┼─▶ Pass ─┬─ nil ───▶ wait for a wake-up, or Period
//	Retry (back-off) ─────────┘         └─ error ─▶ wait for a wake-up, or Retry
//
// A pass looks at everything, so that one wake-up is as good as many (package wakeup).
package loop

import (
	"context"
	"time"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
)

// Loop says what is repeated, and when.
type Loop struct {
	// Pass compares what is with what should be and corrects it. An error says that it has to be repeated after Retry.
	// It is called once at a time. Required.
	Pass func(ctx context.Context) error
	// Wake asks for a pass before the period is over; nil: nobody does.
	Wake <-chan struct{}
	// Settle is how long a pass waits after a wake-up, while more changes gather; zero: not at all.
	Settle time.Duration
	// Apart is the least time between the end of a pass and the begin of the next one. If it is not zero, and passes
	// take longer, it is as long as the last pass took: passes take half of the time at most. A change after a quiet
	// time does not wait.
	Apart time.Duration
	// Period is how long after a pass the next one comes although nobody asked for it, the full check; zero: none
	// comes.
	Period time.Duration
	// Retry are the waits after passes that failed in a row; the zero value means Period.
	Retry retry.Backoff
	// Failed is told of a pass that failed, and when the next one comes; nil: Pass tells whom it concerns.
	Failed func(ctx context.Context, err error, wait time.Duration)
	// Later leaves out the pass at the start.
	Later bool
}

// Run makes passes until ctx ends: one at the start, one after each wake-up, one each Period, and one after each that
// failed.
func (l Loop) Run(ctx context.Context) {
	wait, soonest := time.Duration(0), time.Now()
	if l.Later {
		wait = l.Period
		if wait == 0 {
			wait = never
		}
	}
	for failures := 0; ; {
		if !l.rest(ctx, wait, soonest) {
			return
		}

		began := time.Now()
		err := l.Pass(ctx)
		ended := time.Now()
		soonest = ended
		if l.Apart > 0 {
			soonest = ended.Add(max(l.Apart, ended.Sub(began)))
		}
		failures++
		if err == nil {
			failures = 0
		}
		wait = l.wait(failures)
		if err != nil && l.Failed != nil && ctx.Err() == nil {
			l.Failed(ctx, err, wait)
		}
	}
}

// never is longer than a program runs.
const never = time.Duration(1<<63 - 1)

// wait returns how long after a pass the next one comes if nobody asks for it.
func (l Loop) wait(failures int) time.Duration {
	switch {
	case failures > 0 && l.Retry.First > 0:
		return l.Retry.Wait(failures)
	case l.Period > 0:
		return l.Period
	}
	return never
}

// rest waits until the next pass: for wait, or after a wake-up until changes have gathered, and not before the time
// soonest. It returns false if ctx has ended.
func (l Loop) rest(ctx context.Context, wait time.Duration, soonest time.Time) bool {
	due := time.NewTimer(wait)
	defer due.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-due.C:
		return ctx.Err() == nil
	case <-l.Wake:
	}
	if gather := max(l.Settle, time.Until(soonest)); gather > 0 {
		if !wakeup.Pause(ctx, gather) {
			return false
		}
		select {
		case <-l.Wake: // one is enough
		default:
		}
	}
	return true
}
