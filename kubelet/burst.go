package kubelet

import (
	"sync"
	"time"
)

// A burst is when burstSize pods or more are set up at once. It is over when there were fewer for burstRest.
const (
	burstSize = 5
	burstRest = 2 * time.Second
)

// burst notices when many pods are set up at once. It holds back none of them: setting up only a few at a time makes
// no pod cheaper and the last ones late. It is safe for concurrent use.
type burst struct {
	tell func(bool) // not nil

	mu         sync.Mutex
	inside     int
	told       bool      // that there is a burst
	belowSince time.Time // when inside last fell below burstSize; zero while it is not below
}

func newBurst(tell func(bool)) *burst {
	if tell == nil {
		tell = func(bool) {}
	}
	return &burst{tell: tell}
}

// enter counts a pod that begins to be set up.
func (b *burst) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside++; b.inside < burstSize {
		return
	}

	b.belowSince = time.Time{}
	if !b.told {
		b.told = true
		b.tell(true)
	}
}

// leave counts a pod that is set up, or will not be.
func (b *burst) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside--; b.inside == burstSize-1 && b.told {
		b.belowSince = time.Now()
		time.AfterFunc(burstRest, b.over)
	}
}

// over ends the burst unless there was another meanwhile.
func (b *burst) over() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told && !b.belowSince.IsZero() && time.Since(b.belowSince) >= burstRest {
		b.told = false
		b.tell(false)
	}
}
