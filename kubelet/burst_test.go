package kubelet

import (
	"slices"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// TestBurst: a burst begins with its fifth pod and ends when there have been fewer for burstRest, even if some are
// still set up.
func TestBurst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []bool
		c := newBurst(func(is bool) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, is)
		})
		times := func(n int, do func()) {
			for range n {
				do()
			}
		}
		expect := func(when string, want ...bool) {
			t.Helper()
			bubble.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("%s: told %v, want %v", when, told, want)
			}
		}

		times(burstSize-1, c.enter)
		times(1, c.leave)
		expect("few pods")
		times(2*burstSize, c.enter)
		expect("many pods", true)

		times(2*burstSize, c.leave)
		time.Sleep(burstRest / 2)
		times(burstSize, c.enter)
		times(burstSize, c.leave)
		time.Sleep(burstRest - time.Millisecond)
		expect("many pods again before the end", true)
		time.Sleep(time.Millisecond)
		expect("a few that stay", true, false)
		times(burstSize, c.enter)
		expect("many pods later", true, false, true)
	})
}
