package retry

import (
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	bounded := Backoff{First: 500 * time.Millisecond, Max: 3 * time.Second}
	for _, c := range []struct {
		name     string
		backoff  Backoff
		failures int
		want     time.Duration
	}{
		{"no failure", bounded, 0, 0},
		{"first", bounded, 1, 500 * time.Millisecond},
		{"doubled", bounded, 3, 2 * time.Second},
		{"bounded", bounded, 4, 3 * time.Second},
		{"bounded for ever", bounded, 1 << 40, 3 * time.Second},
		{"first above the bound", Backoff{First: time.Minute, Max: time.Second}, 1, time.Second},
		{"unbounded does not overflow", Backoff{First: 1}, 1000, 1 << 62},
		{"zero value", Backoff{}, 5, 0},
	} {
		if got := c.backoff.Wait(c.failures); got != c.want {
			t.Errorf("%s: Wait(%d) = %v, want %v", c.name, c.failures, got, c.want)
		}
	}
}
