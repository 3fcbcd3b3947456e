package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Kind says what a probe decides.
type Kind string

// The kinds of probes, worded as upstream's events begin.
const (
	Startup   Kind = "Startup"
	Liveness  Kind = "Liveness"
	Readiness Kind = "Readiness"
)

// Status is the state of a container by the thresholds of a probe.
type Status int

// A container is Unknown until a probe has met a threshold.
const (
	Unknown Status = iota
	Success
	Failure
)

func (v Status) String() string {
	switch v {
	case Success:
		return "success"
	case Failure:
		return "failure"
	}
	return "unknown"
}

// initial returns the status before a probe has run: a container counts as alive, as not ready, and as not started.
func (k Kind) initial() Status {
	switch k {
	case Liveness:
		return Success
	case Readiness:
		return Failure
	}
	return Unknown
}

// Tracker turns the outcomes of one probe of one container into statuses. It has no clock. It is not safe for
// concurrent use.
type Tracker struct {
	kind    Kind
	spec    timing
	status  Status
	last    bool // the last outcome
	run     int  // how many equal outcomes there were in a row
	started time.Time
}

// timing is a probe's numbers with upstream's defaults filled in.
type timing struct {
	delay, period, timeout time.Duration
	successes, failures    int
}

// timingOf returns the numbers of a probe. A number that is zero or negative has the default of the API, which static
// pods and tests may come without.
func timingOf(p *v1.Probe) timing {
	seconds := func(n, otherwise int32) time.Duration {
		if n <= 0 {
			n = otherwise
		}
		return time.Duration(n) * time.Second
	}
	count := func(n, otherwise int32) int {
		if n <= 0 {
			n = otherwise
		}
		return int(n)
	}
	return timing{
		delay:     seconds(p.InitialDelaySeconds, 0),
		period:    seconds(p.PeriodSeconds, 10),
		timeout:   seconds(p.TimeoutSeconds, 1),
		successes: count(p.SuccessThreshold, 1),
		failures:  count(p.FailureThreshold, 3),
	}
}

// NewTracker returns the Tracker of a probe of a container that started at the given time.
func NewTracker(kind Kind, p *v1.Probe, started time.Time) *Tracker {
	return &Tracker{kind: kind, spec: timingOf(p), status: kind.initial(), started: started}
}

// Status returns the current status.
func (t *Tracker) Status() Status { return t.status }

// Observe takes one outcome. It reports whether the threshold for this outcome is met now; then it is the status.
func (t *Tracker) Observe(ok bool) (met bool) {
	if ok == t.last && t.run > 0 {
		t.run++
	} else {
		t.last, t.run = ok, 1
	}
	need, status := t.spec.failures, Failure
	if ok {
		need, status = t.spec.successes, Success
	}
	if t.run < need {
		return false
	}
	t.status = status
	return true
}

// Ended reports whether the probe needs no further run: a startup probe that is decided, or a liveness probe that
// failed, whose container will be replaced.
func (t *Tracker) Ended() bool {
	switch t.kind {
	case Startup:
		return t.status != Unknown
	case Liveness:
		return t.status == Failure
	}
	return false
}
