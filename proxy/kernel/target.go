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
	task // the work on it, for the queue

	// What is wanted and how far it is: targets alone changes these.

	key service.Key
	// f is what is wanted; nil: nothing any more. It is shared and must not be changed.
	f       *service.Frontend
	service string
	// orphan is the load balancer to be deleted; zero for a frontend.
	orphan balance.GUID
	// derived frontends are added by us: their failure is not the service's.
	derived bool
	// done: HNS is as wanted.
	done    bool
	state   health.State // "" without backends
	limits  []service.Problem
	failure *failure

	// The work on it: Proxy changes these (lifecycle.go), and others by the methods below.

	// doubted: HNS may or may not have done what it was asked last, so its documents are read first. recreate: the
	// load balancer is deleted and created although it is listed as it should be. Both may be set.
	doubted, recreate bool
	// blockers counts the endpoints that a waiting target waits for.
	blockers int
	// applied is why the last operation was done. The same reason right after it means that HNS does something else.
	applied string
}

func (t *target) isOrphan() bool { return t.orphan != balance.GUID{} }

// doubt has the documents of HNS read before anything else is done to the target.
func (t *target) doubt() { t.doubted = true }

// makeAnew has the load balancer deleted and created although it is listed as it should be.
func (t *target) makeAnew() { t.recreate = true }

// waitFor has the target wait until n endpoints exist, or are given up. It must be planned for that, see phase.
func (t *target) waitFor(n int) {
	t.blockers = n
	if n > 0 {
		t.take(wait)
	}
}

// endpointThere notes that an endpoint exists now, or is given up. It returns true if that was the last one that the
// target waited for.
func (t *target) endpointThere() bool {
	if t.phase != waiting {
		return false
	}
	if t.blockers--; t.blockers > 0 {
		return false
	}
	return t.take(resume)
}

// repeats reports whether an operation has the same reason as the one before, which then counts no more: HNS did not do
// what it was asked. Operations that need no reason have "".
func (t *target) repeats(why string) bool {
	if why == "" || why != t.applied {
		return false
	}
	t.applied = ""
	return true
}

// written notes that HNS did an operation, and its reason. outdated says that what is wanted changed meanwhile, so that
// the same reason may come again.
func (t *target) written(why string, outdated bool) {
	t.applied, t.recreate = why, false
	if outdated {
		t.applied = ""
	}
}

// mayBeTried reports whether the target waits neither for the time of its next attempt nor for a full check.
func (t *target) mayBeTried() bool {
	return t.failure == nil || !t.failure.needsFullCheck && !time.Now().Before(t.failure.next)
}

// tryNow ends the wait for the next attempt after a failure.
func (t *target) tryNow() {
	if t.failure != nil {
		t.failure.next = time.Time{}
	}
}

// fullCheckEnded has a failing target tried again if it waited for the full check, or if HNS did not answer before it.
// podKnown says whether HNS knows the pods that the target needs; it is asked only if that was the failure.
func (t *target) fullCheckEnded(podKnown func(*target) bool) {
	unanswered := t.failure.needsFullCheck || t.failure.class == hns.Unknown
	if unanswered || t.failure.Reason == balance.ReasonPodUnknown && podKnown(t) {
		t.failure.needsFullCheck = false
		t.tryNow()
	}
}

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
