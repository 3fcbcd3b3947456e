package daemon

import (
	"maps"
	"sync"
	"time"
)

// Counts are the calls since the daemon's start, or since they were reset.
type Counts struct {
	Calls  map[string]int `json:"calls"`  // by function, as HcnCreateLoadBalancer or HNSCall GET /networks/
	Errors map[string]int `json:"errors"` // of those, the failed ones
	// Programs are the calls by program file and function.
	Programs map[string]map[string]int `json:"programs"`
	Seconds  float64                   `json:"seconds"` // spent in calls, delays that were injected included
}

// Counter counts calls. Its zero value is ready, and it is safe for concurrent use.
type Counter struct {
	mu sync.Mutex
	c  Counts
}

// Add counts one call of a program that took so long.
func (c *Counter) Add(program, function string, failed bool, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c.Calls == nil {
		c.c.Calls = map[string]int{}
		c.c.Errors = map[string]int{}
		c.c.Programs = map[string]map[string]int{}
	}
	c.c.Calls[function]++
	if failed {
		c.c.Errors[function]++
	}
	if c.c.Programs[program] == nil {
		c.c.Programs[program] = map[string]int{}
	}
	c.c.Programs[program][function]++
	c.c.Seconds += took.Seconds()
}

// Get returns a copy, whose maps are not nil: without calls they are {} in JSON.
func (c *Counter) Get() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := Counts{Calls: map[string]int{}, Errors: map[string]int{}, Programs: map[string]map[string]int{},
		Seconds: c.c.Seconds}
	maps.Copy(counts.Calls, c.c.Calls)
	maps.Copy(counts.Errors, c.c.Errors)
	for name, calls := range c.c.Programs {
		counts.Programs[name] = maps.Clone(calls)
	}
	return counts
}

// Reset forgets all calls.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.c = Counts{}
}
