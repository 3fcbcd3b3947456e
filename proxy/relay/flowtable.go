package relay

import (
	"sync"
	"time"
)

// sample is how many flows are compared to make room for a new one. The one of 32 that was idle for longest is nearly
// always among the oldest tenth of all (1 - 0.9^32 = 97 %).
const sample = 32

// unansweredAge is how long a flow that waits for an answer is not replaced; resolvers ask again after 5 s.
const unansweredAge = 5 * time.Second

// flowTable bounds the flows of all frontends.
type flowTable struct {
	mu    sync.Mutex
	max   int
	total int
	full  []*frontend // those with flows
}

// add adds a flow. If there is no room, it removes another one, victim, which the caller must end. ok is false if
// every flow is still needed.
func (t *flowTable) add(f *flow) (victim *flow, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := f.listener.frontend
	crowded := own
	if len(own.flows) < max(1, t.max/2) {
		crowded = nil
		if t.total >= t.max {
			crowded = t.largest()
		}
	}
	if crowded != nil {
		if victim = oldest(crowded, time.Now()); victim == nil {
			return nil, false
		}
		t.take(victim)
	}
	if len(own.flows) == 0 {
		t.full = append(t.full, own)
	}
	own.flows[f] = struct{}{}
	t.total++
	return victim, true
}

func (t *flowTable) largest() *frontend {
	var most *frontend
	for _, f := range t.full {
		if most == nil || len(f.flows) > len(most.flows) {
			most = f
		}
	}
	return most
}

// oldest returns a flow that may be replaced: one that was answered, or has waited too long for an answer. nil if
// there is none.
func oldest(f *frontend, now time.Time) *flow {
	var found *flow
	seen := 0
	for candidate := range f.flows { // in random order
		if seen++; seen > sample && (found != nil || seen > 8*sample) {
			break
		}
		if !candidate.answered.Load() && now.Sub(candidate.last()) < unansweredAge {
			continue
		}
		if found == nil || candidate.last().Before(found.last()) {
			found = candidate
		}
	}
	return found
}

func (t *flowTable) remove(f *flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(f)
}

// take removes a flow from the table; it does nothing if the flow was removed already. The caller holds the lock.
func (t *flowTable) take(f *flow) {
	own := f.listener.frontend
	if _, there := own.flows[f]; !there {
		return
	}
	delete(own.flows, f)
	t.total--
	if len(own.flows) > 0 {
		return
	}
	for i := range t.full {
		if t.full[i] == own {
			t.full[i] = t.full[len(t.full)-1]
			t.full = t.full[:len(t.full)-1]
			return
		}
	}
}

func (t *flowTable) count(f *frontend) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(f.flows)
}
