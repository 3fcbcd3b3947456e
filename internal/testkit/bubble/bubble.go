// Package bubble runs tests in bubbles of testing/synctest, whose clock goes on when everybody waits. Tests use it
// instead of that package, so that they can run with the race detector too.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble, as synctest.Test does.
//
// With the race detector the whole program has one processor for that long. A bubble has one race context for all its
// timers, and Go 1.26.8 lets two threads use it at once: a timer that nobody waited for when it expired is run by
// whoever looks at its channel, and only timers in the heap are under a lock. The detector then ends the program with
// "SIGSEGV: segmentation violation" or "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346". It finds races with one
// processor as well: it compares what happened before what, not at which moment. TestTimersOfOneBubble shows both.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if raced {
		oneProcessor.begin()
		defer oneProcessor.end()
	}
	synctest.Test(t, f)
}

// Wait waits until everybody else in the bubble waits, as synctest.Wait does.
func Wait() { synctest.Wait() }

// oneProcessor holds the program at one processor while a test that needs it runs; tests may run at once.
var oneProcessor processors

// processors lowers GOMAXPROCS to 1 while anybody uses it; before is the number to go back to.
type processors struct {
	mu     sync.Mutex
	users  int
	before int
}

func (p *processors) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users++; p.users == 1 {
		p.before = runtime.GOMAXPROCS(1)
	}
}

func (p *processors) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		runtime.GOMAXPROCS(p.before)
	}
}
