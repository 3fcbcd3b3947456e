package hnstest

import (
	"context"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/internal/testkit/faults"
)

// Outcome is how a call ends.
type Outcome int

// Outcomes.
const (
	Work          Outcome = iota // nothing unusual
	Fail                         // unknown error, nothing changed
	DoThenFail                   // the change is made, and the caller gets an unknown error
	LieAboutIt                   // success is answered and nothing changed
	AnswerNothing                // a listing answers an empty list
	Hang                         // no answer until the caller's deadline, nothing changed
	Vanish                       // reading one object finds it gone (it is not)
	Halve                        // reading an endpoint gives no addresses
)

// OneIn returns a Fault that gives the outcome to one in n calls at random. The same seed gives the same sequence.
func OneIn(n int, seed uint64, how Outcome) func(string) Outcome {
	return faults.OneIn[string](n, seed, how)
}

// recorder counts calls and gives them their faults and latencies.
type recorder struct {
	faults.Counter // by kind
	// Fault, if set, is asked before each call; kind is as counted by Calls.
	Fault func(kind string) Outcome
	// Latency, if set, is how long a call of a kind takes; writes wait for each other.
	Latency func(kind string) time.Duration

	turn chan struct{} // holds one element while a write waits for its latency
	mu   sync.Mutex
}

// SetFault replaces Fault, during use too.
func (r *recorder) SetFault(fault func(string) Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Fault = fault
}

// hangs is how long a call hangs at most: the default deadline of hns/hcn.
const hangs = 30 * time.Second

// enter counts the call, waits for its latency and returns its fault. Writes wait one after the other, as in HNS.
func (r *recorder) enter(ctx context.Context, kind string) Outcome {
	r.CountCall(kind)
	r.mu.Lock()
	outcome, latency := Work, time.Duration(0)
	if r.Fault != nil {
		outcome = r.Fault(kind)
	}
	if r.Latency != nil {
		latency = r.Latency(kind)
	}
	r.mu.Unlock()

	if outcome == Hang {
		pause(ctx, hangs)
		return Fail
	}
	if latency > 0 {
		if isWrite(kind) {
			r.turn <- struct{}{}
			defer func() { <-r.turn }()
		}
		pause(ctx, latency)
	}
	return outcome
}

// isWrite tells by the verb whether a call changes something.
func isWrite(kind string) bool {
	for _, verb := range []string{"create", "modify", "delete", "add", "remove"} {
		if strings.HasPrefix(kind, verb) {
			return true
		}
	}
	return false
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
