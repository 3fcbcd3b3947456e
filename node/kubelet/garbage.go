package kubelet

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// GOGC, how much garbage may lie in the heap before it is collected, in percent of what lives. That is 8 MB with 50
// pods and 20 MB with 250. While many pods start, fewer collections leave the processors to the pods. But the heap
// hardly shrinks afterwards, because live objects are spread over all of its pages. Measured after the start of 250
// pods, without releaseProgram: with 400 % in bursts the kubelet had 124 MB, with at most 16 MB of garbage 91 MB.
const (
	usualGarbage = 50
	burstMost    = 400      // during a burst
	burstBytes   = 12 << 20 // of garbage, that is: a larger heap gets less than burstMost
)

// afterStart is how long after its start the kubelet gives memory back, on a node where no burst follows the start.
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

// collectLessInBursts returns a function that makes garbage collection rare during a burst of pod starts, and returns
// the memory to the system afterwards. It returns nil if GOGC or GOMEMLIMIT is set: then the user decides.
func collectLessInBursts(getenv func(string) string) func(bool) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(usualGarbage)
	time.AfterFunc(afterStart, rest)
	return new(collector).tell
}

// tell is told when a burst of pods begins and ends.
func (c *collector) tell(burst bool) {
	c.mu.Lock()
	c.burst = burst
	c.mu.Unlock()
	c.adjust()
	if !burst {
		go rest() // the caller does not wait for it
	}
}

// rest returns memory to the system that was needed only while the kubelet started or while many pods started.
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
	// nothing refers to the pointer, so that this runs after the next collection
	runtime.AddCleanup(new(*byte), func(c *collector) { c.adjust() }, c)
}
