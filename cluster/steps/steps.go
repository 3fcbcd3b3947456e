// Package steps are what `porthole up` and `porthole down` do one after the other: each is printed when it is done, and
// one that takes its time is waited for.
package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"porthole.dev/porthole/internal/slow"
)

// Report prints a line per step with the time since the start.
type Report struct {
	out   io.Writer
	start time.Time
}

// Begin returns the report of steps that start now.
func Begin(out io.Writer) *Report { return &Report{out: out, start: time.Now()} }

// Done prints that a step is done.
func (r *Report) Done(what string) {
	fmt.Fprintf(r.out, "%6.1fs  %s\n", time.Since(r.start).Seconds(), what)
}

// Wait calls try until it succeeds. If the time is over first, it returns the last error of try, and names the flag
// that gives more time. usual is the time on a usual machine.
func Wait(ctx context.Context, usual time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(usual))
	defer cancel()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%w (after %v; on a slow machine: --time-scale)", last, slow.Limit(usual))
			}
			return last
		case <-time.After(slow.Limit(100 * time.Millisecond)):
		}
	}
}
