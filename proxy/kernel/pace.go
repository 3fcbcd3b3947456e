package kernel

import "time"

// pace measures how fast HNS answers. HNS writes one object at a time: more calls in flight than hide our own round
// trip only lengthen its queue, and urgent calls would wait behind them. The zero value has seen no answer; the
// measurement starts again after each rest.
type pace struct {
	last time.Time // when the answer before came
	// interval from one answer to the next while there was something to do, smoothed; 0: not known.
	interval time.Duration
}

const (
	// queueTime is how long the calls in flight may keep HNS busy where it is fast. Two calls of a Windows Server 2025
	// take longer (spec: 15 ms each).
	queueTime = 5 * time.Millisecond
	// maxWriters bounds the calls in flight. Each is a thread that stays. On an emulated host without latency 2,000
	// services were there after 3.1 s with 2 writers, 2.7 s with 4, 2.6 s with 8, 2.5 s with 16.
	maxWriters = 8
)

// answered notes the answer to a call that was given to HNS at begun.
func (p *pace) answered(begun, now time.Time) {
	took := now.Sub(begun)
	if begun.Before(p.last) {
		took = now.Sub(p.last)
	}
	p.last = now

	if p.interval == 0 {
		p.interval = max(took, queueTime) // one fast answer says little
		return
	}
	p.interval = max(p.interval+(took-p.interval)/8, time.Microsecond)
}

// writers is how many calls may be in flight: least, or as many as HNS answers in queueTime.
func (p *pace) writers(least int) int {
	if p.interval == 0 {
		return least
	}
	return max(least, min(maxWriters, int(queueTime/p.interval)))
}
