package kernel

import "time"

// pace is how fast HNS answers. It writes one at a time: more calls in flight than hide our own round trip only lengthen its
// queue, and what is urgent would wait behind them. The zero value has seen no answer; it is taken anew after each rest.
type pace struct {
	last time.Time     // the answer before
	each time.Duration // from one answer to the next while there was something to do, smoothed; 0: not known
}

const (
	// queueTime is how long what HNS has been given may keep it busy, where it is fast. Two calls of a Windows Server 2025
	// take longer (spec: 15 ms each).
	queueTime = 5 * time.Millisecond
	// mostWriters are in flight at most. Each is a thread that stays. On an emulated host without latency 2,000 services
	// were there after 3.1 s with 2 writers, 2.7 s with 4, 2.6 s with 8, 2.5 s with 16.
	mostWriters = 8
)

// answered notes the answer to a call that was given to HNS at begun.
func (p *pace) answered(begun, now time.Time) {
	took := now.Sub(begun)
	if begun.Before(p.last) {
		took = now.Sub(p.last)
	}
	p.last = now
	if p.each == 0 {
		p.each = max(took, queueTime) // one fast answer says little
		return
	}
	p.each = max(p.each+(took-p.each)/8, time.Microsecond)
}

// writers is how many calls may be in flight: least, or as many as HNS answers in the queue's time.
func (p *pace) writers(least int) int {
	if p.each == 0 {
		return least
	}
	return max(least, min(mostWriters, int(queueTime/p.each)))
}
