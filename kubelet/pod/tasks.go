package pod

import (
	"strings"
	"time"

	"porthole.dev/porthole/internal/retry"
)

// Failure is why the last attempt at something failed, and when to try again. Count is the number of failures in a row.
type Failure struct {
	Reason, Message string
	RetryAt         time.Time
	Count           int
}

// taskState has the actions that are carried out for a pod, and the failures of those that are to be tried again. At
// most one action per key is in flight.
type taskState struct {
	// inFlight holds the keys of the actions that run, with the deadline of stops.
	inFlight map[string]time.Time
	failures map[string]*Failure // by failureKey
}

// maxRetry bounds the wait after most failures, taskRetry is the first wait after the panic of a task.
const (
	maxRetry  = 15 * time.Second
	taskRetry = 10 * time.Second
)

// retries are the first waits after a failure, by what failed.
var retries = map[Kind]time.Duration{
	CreateSandbox:   5 * time.Second,
	StartContainer:  time.Second,
	RunHook:         time.Second,
	StopContainer:   500 * time.Millisecond,
	StopSandbox:     500 * time.Millisecond,
	RemoveContainer: 500 * time.Millisecond,
	RemoveSandbox:   500 * time.Millisecond,
	Cleanup:         500 * time.Millisecond,
	ResizePod:       2 * time.Second,
}

// failureKey is the key under which an action reads and leaves its failure. Volumes and images keep theirs elsewhere.
// A stop that is repeated with less time has a key of its own.
func failureKey(a Action) string {
	switch a.Kind {
	case StartContainer, RunHook:
		return a.Name
	case StopSandbox:
		return StopSandboxKey
	case RemoveContainer, RemoveSandbox:
		return RemoveKey
	}
	return a.Key
}

func (t taskState) busy(key string) bool { _, ok := t.inFlight[key]; return ok }

// begin adds an action to those that run. It reports false if one with its key runs already.
func (t taskState) begin(a Action) bool {
	if t.busy(a.Key) {
		return false
	}
	t.inFlight[a.Key] = a.Deadline
	return true
}

// end takes an action out of those that run. It reports false if it does not run: then nothing can have come of it.
func (t taskState) end(key string) bool {
	if !t.busy(key) {
		return false
	}
	delete(t.inFlight, key)
	return true
}

// starting reports whether a container is being started, or its postStart hook runs.
func (t taskState) starting() bool {
	for key := range t.inFlight {
		if strings.HasPrefix(key, "start/") {
			return true
		}
	}
	return false
}

// preparing returns the keys of the actions that fetch what only a pod that runs needs, in no order.
func (t taskState) preparing() (keys []string) {
	for key := range t.inFlight {
		if key == VolumesKey || strings.HasPrefix(key, "image/") {
			keys = append(keys, key)
		}
	}
	return keys
}

// stops returns how many stops of a container are in flight, and the earliest of their deadlines. One that is repeated
// with less time has its number behind the key of the first.
func (t taskState) stops(id string) (n int, earliest time.Time) {
	for key, at := range t.inFlight {
		if key != stopKey(id) && !strings.HasPrefix(key, stopKey(id)+"/") {
			continue
		}
		if n++; earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	return n, earliest
}

// fail notes the failure of an action. The wait before the next try doubles with every failure in a row.
func (t taskState) fail(a Action, reason, message string, now time.Time) {
	t.failAfter(retries[a.Kind], a, reason, message, now)
}

// failAfter notes a failure whose first wait is not that of the kind.
func (t taskState) failAfter(first time.Duration, a Action, reason, message string, now time.Time) {
	key, count := failureKey(a), 1
	if old := t.failures[key]; old != nil {
		count = old.Count + 1
	}
	wait := retry.Backoff{First: first, Max: maxRetry}.Wait(count)
	t.failures[key] = &Failure{Reason: reason, Message: message, RetryAt: now.Add(wait), Count: count}
}

// succeed forgets the failures under a key.
func (t taskState) succeed(key string) { delete(t.failures, key) }

// retryNow ends the wait after the failures under a key.
func (t taskState) retryNow(key string) {
	if f := t.failures[key]; f != nil {
		due := *f
		due.RetryAt = time.Time{}
		t.failures[key] = &due
	}
}
