package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/retry"
)

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

// volumeBackoff is the wait after volumes could not be prepared. The API server's authorizer learns of a new pod a
// moment after this node did, and refuses the pod's token until then: hence the short first waits, and no event before
// the failure of that number.
var volumeBackoff = retry.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Minute}

const toldVolumeFailure = 4

// failureKey is the key of State.failures under which an action reads and leaves its failure. Volumes and images keep
// theirs elsewhere. A stop that is repeated with less time has a key of its own.
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

// fail notes the failure of an action. The wait before the next try doubles with every failure in a row.
func (s *State) fail(a Action, reason, message string, now time.Time) {
	s.failed(failureKey(a), reason, message, now, retries[a.Kind])
}

func (s *State) failed(key, reason, message string, now time.Time, first time.Duration) {
	count := 1
	if old := s.failures[key]; old != nil {
		count = old.Count + 1
	}
	wait := retry.Backoff{First: first, Max: maxRetry}.Wait(count)
	s.failures[key] = &Failure{Reason: reason, Message: message, RetryAt: now.Add(wait), Count: count}
}

// tellVolumeFailures has the failures of volumes reported, once they are no longer those of a pod that is new.
func tellVolumeFailures(s *State, count int, failures []string) {
	if count < toldVolumeFailure {
		return
	}
	for _, text := range failures {
		tell(s, Event{Type: v1.EventTypeWarning, Reason: "FailedMount", Message: text})
	}
}
