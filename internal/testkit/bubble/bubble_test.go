package bubble

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestTimersOfOneBubble has eight goroutines look at timers that expired while nobody waited for them, all at one
// moment of the bubble's clock. With the race detector and two processors one of some ten runs of 2400 bubbles ended
// the program; testing/synctest in place of this package shows it with -race -count=20.
func TestTimersOfOneBubble(t *testing.T) {
	for range 100 {
		Test(t, func(t *testing.T) {
			if raced && runtime.GOMAXPROCS(0) != 1 {
				t.Fatal("more than one processor with the race detector")
			}

			began := time.Now()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 10 {
						timer := time.NewTimer(time.Second)
						time.Sleep(2 * time.Second)
						select {
						case <-timer.C:
						case <-t.Context().Done():
						}
					}
				})
			}
			wg.Wait()

			if took := time.Since(began); took != 20*time.Second {
				t.Errorf("took %v on the bubble's clock, want 20s", took)
			}
		})
	}
}

// TestProcessorsComeBack: the program has as many processors as before when the last of several bubbles has ended.
func TestProcessorsComeBack(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var p processors
	p.begin()
	p.begin()
	p.end()
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Errorf("%d processors while one bubble goes on, want 1", got)
	}
	p.end()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d processors at the end, want %d", got, before)
	}
}
