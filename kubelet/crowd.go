package kubelet

import (
	"sync"
	"time"
)

// crowd tells when many pods are set up at once. It lets all of them go on: to let in a few at a time makes none of them
// cheaper, and the last of them late.
type crowd struct {
	tell func(bool) // not nil

	mu     sync.Mutex
	inside int
	told   bool      // that there is a crowd
	calm   time.Time // since when it has not been one; zero while it is
}

// How many pods are a crowd, and how long after it there is none.
const (
	crowdSize = 5
	crowdCalm = 2 * time.Second
)

func newCrowd(tell func(bool)) *crowd {
	if tell == nil {
		tell = func(bool) {}
	}
	return &crowd{tell: tell}
}

// enter counts a pod that begins to be set up.
func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside++; c.inside < crowdSize {
		return
	}
	c.calm = time.Time{}
	if !c.told {
		c.told = true
		c.tell(true)
	}
}

// leave counts one that is set up, or will not be.
func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside--; c.inside == crowdSize-1 && c.told {
		c.calm = time.Now()
		time.AfterFunc(crowdCalm, c.over)
	}
}

// over ends the crowd unless there was another meanwhile.
func (c *crowd) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told && !c.calm.IsZero() && time.Since(c.calm) >= crowdCalm {
		c.told = false
		c.tell(false)
	}
}
