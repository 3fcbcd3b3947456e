package loop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/internal/wakeup"
)

// TestRun: when passes begin.
func TestRun(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name  string
		loop  Loop
		wakes []time.Duration // when somebody asks for a pass
		fails int             // how many passes fail, from the first on
		takes time.Duration   // each pass
		want  []time.Duration // when passes begin, in the first ten seconds
	}{
		{"once", Loop{}, nil, 0, 0, []time.Duration{0}},
		{"not at the start", Loop{Later: true}, []time.Duration{s}, 0, 0, []time.Duration{s}},
		{"each period", Loop{Period: 4 * s}, nil, 0, 0, []time.Duration{0, 4 * s, 8 * s}},
		{"the period begins after the pass", Loop{Period: 4 * s, Later: true}, []time.Duration{3 * s}, 0, s,
			[]time.Duration{3 * s, 8 * s}},
		{"failures", Loop{Period: 4 * s, Retry: retry.Backoff{First: s, Max: 2 * s}}, nil, 3, 0,
			[]time.Duration{0, s, 3 * s, 5 * s, 9 * s}},
		{"failures without a back-off", Loop{Period: 4 * s}, nil, 3, 0, []time.Duration{0, 4 * s, 8 * s}},
		{"a wake-up ends a back-off", Loop{Retry: retry.Backoff{First: 5 * s}}, []time.Duration{s}, 1, 0,
			[]time.Duration{0, s}},
		{"changes gather", Loop{Settle: s}, []time.Duration{s, 1500 * ms, 1900 * ms, 3 * s}, 0, 0,
			[]time.Duration{0, 2 * s, 4 * s}},
		{"a change after a quiet time does not wait", Loop{Apart: s}, []time.Duration{5 * s}, 0, 0,
			[]time.Duration{0, 5 * s}},
		{"changes that follow each other", Loop{Apart: s}, []time.Duration{5 * s, 5100 * ms, 5200 * ms, 6500 * ms}, 0,
			0,
			[]time.Duration{0, 5 * s, 6 * s, 7 * s}},
		{"long passes", Loop{Apart: s}, []time.Duration{100 * ms, 3 * s}, 0, 2 * s, []time.Duration{0, 4 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 9900*time.Millisecond)
				defer cancel()
				wake, began := wakeup.New(), time.Now()
				for _, at := range c.wakes {
					time.AfterFunc(at, wake.Wake)
				}

				var got []time.Duration
				told := 0
				c.loop.Failed = func(_ context.Context, _ error, wait time.Duration) {
					if told++; wait < s {
						t.Errorf("after failure %d the next pass waits %v", told, wait)
					}
				}
				c.loop.Wake = wake
				c.loop.Pass = func(context.Context) error {
					got = append(got, time.Since(began))
					time.Sleep(c.takes)
					if len(got) <= c.fails {
						return errors.New("it is broken")
					}
					return nil
				}
				c.loop.Run(ctx)
				if !slices.Equal(got, c.want) || told != c.fails {
					t.Errorf("passes began at %v, want %v; told of %d failures, want %d", got, c.want, told, c.fails)
				}
			})
		})
	}
}
