package wait

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// failure records what a failed test would print.
type failure struct{ args []any }

func (f *failure) Helper()           {}
func (f *failure) Fatal(args ...any) { f.args = args }

func TestForReturnsWhenTryDoes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tries := 0
		err := For(t.Context(), time.Minute, "five tries", func(context.Context) error {
			if tries++; tries < 5 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || tries != 5 {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}

// TestForKeepsTheReason: an error that the end of the wait itself causes does not replace the one that explains it.
func TestForKeepsTheReason(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		start := time.Now()
		err := For(t.Context(), time.Second, "the port", func(ctx context.Context) error {
			if time.Since(start) < 900*time.Millisecond {
				return errors.New("refused")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if err == nil || err.Error() != "waited 1s for the port: refused" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestSlowTries: after a try of 60 ms the next one comes 60 ms later.
func TestSlowTries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tries := 0
		_ = For(t.Context(), time.Second, "never", func(context.Context) error {
			tries++
			time.Sleep(60 * time.Millisecond)
			return errors.New("no")
		})
		if tries != 9 {
			t.Errorf("%d tries in 1s", tries)
		}
	})
}

func TestTrue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		start := time.Now()
		True(t, time.Minute, "a second", func() bool { return time.Since(start) > time.Second })
		var f failure
		True(&f, time.Second, "the impossible", func() bool { return false })
		if len(f.args) != 1 || !strings.Contains(f.args[0].(error).Error(),
			"for the impossible: it did not become true") {
			t.Errorf("got %v", f.args)
		}
	})
}
