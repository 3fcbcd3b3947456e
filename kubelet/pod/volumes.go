package pod

import (
	"time"

	"porthole.dev/porthole/internal/retry"
)

// volumeState says how far the volumes of a pod are prepared. Either they are ready, or the last attempt may have
// failed.
type volumeState struct {
	ready   bool
	failure *Failure
}

// volumeBackoff is the wait after volumes could not be prepared. The API server's authorizer learns of a new pod a
// moment after this node did, and refuses the pod's token until then: hence the short first waits, and no event before
// the failure of the number toldVolumeFailure.
var volumeBackoff = retry.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Minute}

const toldVolumeFailure = 4

// failureCount returns the number of failures in a row.
func (v *volumeState) failureCount() int {
	if v.failure == nil {
		return 0
	}
	return v.failure.Count
}

func (v *volumeState) prepared() { *v = volumeState{ready: true} }

// fail notes one more failure. It reports whether failures are to be told of, because they are no longer those of a pod
// that is new.
func (v *volumeState) fail(message string, now time.Time) (told bool) {
	count := v.failureCount() + 1
	v.failure = &Failure{Message: message, RetryAt: now.Add(volumeBackoff.Wait(count)), Count: count}
	return count >= toldVolumeFailure
}

// panicked notes that the attempt ended with a panic. It does not count as one of a row.
func (v *volumeState) panicked(message string, now time.Time) {
	v.failure = &Failure{Message: message, RetryAt: now.Add(taskRetry)}
}
