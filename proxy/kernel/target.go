package kernel

import (
	"errors"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// target is one frontend: what is wanted, and the state of the work on it. When no service wants it any more, it stays
// until HNS has nothing of ours at its key. An orphan is a target too: a load balancer of ours that no service wants.
type target struct {
	task
	key service.Key
	// f is what is wanted; nil: nothing any more. It is shared and must not be changed.
	f       *service.Frontend
	service string
	// orphan is the load balancer to be deleted; zero for a frontend.
	orphan balance.GUID
	// derived frontends are added by us: their failure is not the service's.
	derived bool

	// doubted: HNS may or may not have done what it was asked last, so its documents are read first. recreate: the
	// load balancer is deleted and created although it is listed as it should be. Both may be set.
	doubted, recreate bool
	// done: HNS is as wanted.
	done bool
	// blockers counts the endpoints that a waiting target waits for.
	blockers int
	// applied is why the last operation was done. The same reason right after it means that HNS does something else.
	applied string

	state   health.State // "" without backends
	limits  []service.Problem
	failure *failure
}

func (t *target) isOrphan() bool { return t.orphan != balance.GUID{} }

// failure is why the last attempt at something failed.
type failure struct {
	service.Problem
	code  uint32 // of HNS; 0: none
	class hns.Class
	// failures in a row with this reason and code; streak with any.
	failures, streak int
	// since is when the streak began, next when it is tried again.
	since, next time.Time
	// needsFullCheck: HNS is listed before the next attempt, and then the attempt comes at once.
	needsFullCheck bool
}

// tryNow ends the wait for the next attempt.
func (f *failure) tryNow() { f.next = time.Time{} }

// enduring failures: from this many in a row on, frontends are served without the endpoint, and derived frontends are
// reported.
const enduring = 3

// retries decides when something that failed is tried again.
type retries struct{ retry.Backoff }

// after returns the failure that follows old, which is nil after a success. err may be nil.
func (r retries) after(old *failure, why service.Problem, err error) *failure {
	now := time.Now()
	next := &failure{Problem: why, class: hns.ClassOf(err), since: now, failures: 1, streak: 1}
	var e *hns.Error
	if errors.As(err, &e) {
		next.code = e.Code
	}

	if old != nil {
		next.since, next.streak = old.since, old.streak+1
		if old.Reason == why.Reason && old.code == next.code {
			next.failures = old.failures + 1
		}
	}
	next.next = now.Add(r.Wait(next.streak))
	return next
}

func problemOf(t *target, reason, text string) service.Problem {
	return service.Problem{Service: t.service, Reason: reason, Text: t.key.String() + ": " + text}
}
