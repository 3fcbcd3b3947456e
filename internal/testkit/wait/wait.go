// Package wait lets tests wait for a condition instead of sleeping. It imports the standard library and internal/slow
// only, so that every test may use it.
package wait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"porthole.dev/porthole/internal/slow"
)

// The pause between two tries starts at minPause and doubles up to maxPause. A try that takes long itself, such as one
// that starts a program, is followed by a pause of the same length, at most maxSlowPause: waiting then uses at most
// half of a processor.
const (
	minPause     = time.Millisecond
	maxPause     = 20 * time.Millisecond
	maxSlowPause = 100 * time.Millisecond
)

// tester is the part of testing.TB that is used.
type tester interface {
	Helper()
	Fatal(args ...any)
}

// For calls try until it returns nil, and then returns nil. After limit (as slow.Limit has it), or when ctx
// ends, it returns try's last error together with what was waited for. The context that try gets ends with the
// wait; an error that only this caused does not hide an earlier one.
func For(ctx context.Context, limit time.Duration, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(limit))
	defer cancel()
	began := time.Now()

	var last error
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		start := time.Now()
		err := try(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}

		slow := min(time.Since(start), maxSlowPause)
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s: %w", time.Since(began).Round(time.Millisecond), what, last)
		case <-time.After(max(pause, slow)):
		}
	}
}

// NoError calls try until it returns nil. After limit, try's last error fails the test.
func NoError(t tester, limit time.Duration, what string, try func() error) {
	t.Helper()
	if err := For(context.Background(), limit, what, func(context.Context) error { return try() }); err != nil {
		t.Fatal(err)
	}
}

var errNotYet = errors.New("it did not become true")

// True calls holds until it returns true. After limit the test fails.
func True(t tester, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	NoError(t, limit, what, func() error {
		if !holds() {
			return errNotYet
		}
		return nil
	})
}
