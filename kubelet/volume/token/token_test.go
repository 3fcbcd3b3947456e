package token

import (
	"testing"
	"time"
)

func TestRenewTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, c := range []struct{ life, jitter, want time.Duration }{
		{time.Hour, 0, 48 * time.Minute},
		{time.Hour, 10 * time.Second, 48*time.Minute - 10*time.Second},
		{365 * 24 * time.Hour, 0, 24 * time.Hour},
		{time.Second, 10 * time.Second, 0},
	} {
		if got := renewTime(now, now.Add(c.life), c.jitter).Sub(now); got != c.want {
			t.Errorf("life %v jitter %v: %v, want %v", c.life, c.jitter, got, c.want)
		}
	}
}
