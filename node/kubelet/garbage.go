package kubelet

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// GOGC, how much garbage may lie in the heap before it is collected, in percent of what lives. That is 8 MB with 50 pods and 20 MB with 250.
// While many pods start, the processors have better things to do than to collect. But the heap hardly shrinks afterwards, because what
// lives is left all over it. With 400 % the kubelet had 124 MB after the start of 250 pods, with limits like these 91 MB, for a tenth of a second more
// of 5 seconds of processor time (both without releaseProgram).
const (
	usualGarbage = 50
	burstMost    = 400      // during a burst
	burstBytes   = 12 << 20 // of garbage, that is: a larger heap gets less than burstMost
)

// afterStart is when the start is over, also where it is no burst.
const afterStart = time.Minute

// burstGarbage returns GOGC during a burst, for a heap in which live bytes live.
func burstGarbage(live uint64) int {
	return int(min(max(burstBytes*100/max(live, 1), usualGarbage), burstMost))
}

// collector sets how often garbage is collected.
type collector struct {
	mu    sync.Mutex
	burst bool
}

// collectLessInBursts returns a function that makes garbage collection rare during a burst of pod starts, and returns the memory
// to the system afterwards. It returns nil if GOGC or GOMEMLIMIT is set: then the user decides.
func collectLessInBursts(getenv func(string) string) func(bool) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(usualGarbage)
	time.AfterFunc(afterStart, rest)
	return new(collector).tell
}

func (c *collector) tell(burst bool) {
	c.mu.Lock()
	c.burst = burst
	c.mu.Unlock()
	c.adjust()
	if !burst {
		go rest() // the caller does not wait for it
	}
}

// rest returns what a burst, or the start, has left to the system.
func rest() {
	debug.FreeOSMemory() // a collection
	releaseProgram()
}

// adjust sets how much garbage is allowed, during a burst by what lives now, and then again after each collection.
func (c *collector) adjust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.burst {
		debug.SetGCPercent(usualGarbage)
		return
	}

	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(burstGarbage(live[0].Value.Uint64()))
	runtime.AddCleanup(new(*byte), func(c *collector) { c.adjust() }, c) // after the next collection, which finds the pointer that nobody has
}
