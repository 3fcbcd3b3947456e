// Package faults is what the fakes of services have in common: HNS (hns/hnstest) and the container runtime
// (kubelet/runtime/runtimetest). They count their calls, and let some of them fail.
package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Counter counts calls by kind. The zero value is ready to use. It is safe for concurrent use.
type Counter struct {
	mu sync.Mutex
	of map[string]int
}

// CountCall counts one call.
func (c *Counter) CountCall(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[kind]++
}

// Calls returns the number of calls so far by kind, in lines such as "create endpoint: 3", sorted.
func (c *Counter) Calls() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c.of)) {
		fmt.Fprintf(&b, "%s: %d\n", kind, c.of[kind])
	}
	return b.String()
}

// Count returns the number of calls of one kind so far.
func (c *Counter) Count(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[kind]
}

// ResetCalls starts counting again from zero.
func (c *Counter) ResetCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of = nil
}

// OneIn returns a fault that gives one of the outcomes to one in n calls at random, and the zero Outcome to the
// others. The same seed gives the same sequence. It is safe for concurrent use.
func OneIn[Call, Outcome any](n int, seed uint64, how ...Outcome) func(Call) Outcome {
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(seed, 0))
	return func(Call) (outcome Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if chance.IntN(n) == 0 {
			outcome = how[chance.IntN(len(how))]
		}
		return outcome
	}
}
