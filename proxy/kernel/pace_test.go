package kernel

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	const least = 4
	now := time.Now()
	var p pace
	if got := p.writers(least); got != least {
		t.Errorf("before the first answer %d writers, want %d", got, least)
	}
	// calls are answered one by one, and each is given to HNS when the one four before it is answered.
	answers := func(n int, each time.Duration) {
		for range n {
			now = now.Add(each)
			p.answered(now.Add(-least*each), now)
		}
	}
	answers(1, 100*time.Microsecond)
	if got := p.writers(least); got != least {
		t.Errorf("after one fast answer %d writers, want %d", got, least)
	}

	answers(40, 100*time.Microsecond)
	if got := p.writers(least); got != maxWriters {
		t.Errorf("where HNS is fast %d writers, want %d", got, maxWriters)
	}

	answers(10, 15*time.Millisecond)
	if got := p.writers(least); got != least {
		t.Errorf("where HNS is slow %d writers, want %d", got, least)
	}
}
