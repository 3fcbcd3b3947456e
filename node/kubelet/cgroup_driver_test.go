package kubelet

import (
	"context"
	"errors"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/kubelet/cgroup"
)

// TestDecideDriver: the runtime's cgroup driver counts, the configuration's only if the runtime does not tell; an
// answer that does not come decides nothing.
func TestDecideDriver(t *testing.T) {
	answers := func(list ...any) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			next := list[0]
			list = list[1:]
			if err, ok := next.(error); ok {
				return "", err
			}
			return next.(string), nil
		}
	}
	failed := errors.New("the runtime is not there")

	bubble.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			configured string
			ask        func(context.Context) (string, error)
			top        string
			took       time.Duration
		}{
			{"systemd", answers("cgroupfs"), "/kubepods", 0},
			{"systemd", answers(failed, failed, "cgroupfs"), "/kubepods", 2 * driverPause},
			{"cgroupfs", answers(""), "/kubepods", 0},
		} {
			began := time.Now()
			tree := cgroup.New("").Decided(func(ctx context.Context) (string, error) {
				return decideDriver(ctx, c.configured, c.ask)
			})
			if err := tree.Begin(t.Context()); err != nil || tree.Top() != c.top || time.Since(began) != c.took {
				t.Errorf("configured %s: %q after %s, want %q after %s: %v", c.configured, tree.Top(),
					time.Since(began), c.top, c.took, err)
			}
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		always := func(context.Context) (string, error) { return "", failed }
		if driver, err := decideDriver(ctx, "cgroupfs", always); !errors.Is(err, context.DeadlineExceeded) ||
			driver != "" {
			t.Errorf("a runtime that never answers: %q, %v", driver, err)
		}
	})
}
