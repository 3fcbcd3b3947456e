package keep

import (
	"testing"
	"time"
)

// TestPace: a burst of short passes follow each other at once, then they settle; long ones take half of the time at
// most.
func TestPace(t *testing.T) {
	const short, long = time.Millisecond, 3 * settle
	at, p := time.Unix(1000, 0), pace{burst: 2}
	for i, c := range []struct{ after, took, want time.Duration }{
		{0, short, short}, {short, short, short}, {short, short, settle}, {settle, short, settle}, {settle, long, long},
		{burstPeriod, long, long}, {short, short, short}, {short, short, settle},
	} {
		at = at.Add(c.after)
		if got := p.gap(at, c.took); got != c.want {
			t.Errorf("pass %d: the next waits %s, want %s", i, got, c.want)
		}
	}
	if got := new(pace).gap(at, short); got != settle {
		t.Errorf("without a burst the next pass waits %s, want %s", got, settle)
	}
}
