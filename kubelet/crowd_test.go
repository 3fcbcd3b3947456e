package kubelet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestCrowd: a crowd begins with its fifth pod and ends when there have been fewer for a while, whether or not some stay.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		c := newCrowd(func(is bool) { told = append(told, is) })
		times := func(n int, do func()) {
			for range n {
				do()
			}
		}
		expect := func(when string, want ...bool) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(told, want) {
				t.Errorf("%s: told %v, want %v", when, told, want)
			}
		}
		times(crowdSize-1, c.enter)
		times(1, c.leave)
		expect("few pods")
		times(2*crowdSize, c.enter)
		expect("many pods", true)
		times(2*crowdSize, c.leave)
		time.Sleep(crowdCalm / 2)
		times(crowdSize, c.enter)
		times(crowdSize, c.leave)
		time.Sleep(crowdCalm - time.Millisecond)
		expect("many pods again before the end", true)
		time.Sleep(time.Millisecond)
		expect("a few that stay", true, false)
		times(crowdSize, c.enter)
		expect("many pods later", true, false, true)
	})
}
