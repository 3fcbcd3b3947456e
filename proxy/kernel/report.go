package kernel

import (
	"slices"
	"time"

	"porthole.dev/porthole/proxy/health"
)

// report collects what is reported: the round of work ("pass") under way, the frontends by state, and the services
// whose status may have changed.
type report struct {
	*session
	to Reporter

	// active: a pass is under way since started; full: it includes a full check; ready: one pass was complete.
	active, full, ready bool
	started, reported   time.Time
	// writes to HNS since the last report.
	writes int
	// reminderSet: an alarm will have a long pass reported.
	reminderSet bool

	tally tally
	// touched services may have a new status.
	touched map[string]bool
}

// tally counts frontends with backends by state, without derived ones.
type tally struct{ wanted, programmed, pending, failed int }

// begin notes that there is work.
func (r *report) begin() {
	if !r.active {
		r.active, r.started = true, time.Now()
	}
}

// lost reports objects that are gone and that we did not delete.
func (r *report) lost(kind string, n int) {
	if n > 0 {
		r.logger.Info("Objects that we did not delete are gone", "kind", kind, "count", n)
		r.to.Repaired(kind, n)
	}
}

// touch notes that a service may have a new status.
func (r *report) touch(service string) { r.touched[service] = true }

// takeTouched returns the touched services and forgets them. It makes a new map, since one keeps room for the most
// that it ever held, and walking over it takes as long.
func (r *report) takeTouched() map[string]bool {
	touched := r.touched
	if len(touched) > 0 {
		r.touched = map[string]bool{}
	}
	return touched
}

// setCounted changes the state of a target and counts it.
func (r *report) setCounted(t *target, state health.State) {
	if !t.derived {
		r.count(t.state, -1)
		r.count(state, 1)
	}
	t.state = state
}

func (r *report) count(state health.State, n int) {
	switch state {
	case health.Programmed:
		r.tally.programmed += n
	case health.Pending:
		r.tally.pending += n
	case health.Failed:
		r.tally.failed += n
	default:
		return
	}
	r.tally.wanted += n
}

// reportInterval is how often a pass that lasts is reported, also while a call hangs.
const reportInterval = time.Second

// due reports whether the pass is to be reported now. quiet says that nothing is left to do.
func (r *report) due(quiet bool) bool {
	last := r.started
	if r.reported.After(last) {
		last = r.reported
	}
	return r.active && (quiet || time.Since(last) >= reportInterval)
}

// pass reports the pass, and ends it if quiet.
func (r *report) pass(k *known, quiet bool) {
	now := time.Now()
	r.to.Pass(health.Pass{
		Started: r.started, Observed: k.observed, Took: now.Sub(r.started), Ready: r.ready, Full: r.full, Err: k.away,
		Writes: r.writes,
		Wanted: r.tally.wanted, Programmed: r.tally.programmed, Failed: r.tally.failed, Pending: r.tally.pending,
	})
	r.reported, r.writes, r.full = now, 0, false
	r.active = !quiet
}

// reported is the status of a service that was reported last. The state is "" if none was.
type reported struct {
	state                 health.State
	since                 time.Time
	frontends, programmed int
	wrong                 *health.ServiceStatus // the whole status, if something is wrong
}

func reportedOf(s *health.ServiceStatus) reported {
	r := reported{state: s.State, since: s.Since, frontends: s.Frontends, programmed: s.Programmed}
	if !isFine(s) {
		whole := *s
		r.wrong = &whole
	}
	return r
}

func isFine(s *health.ServiceStatus) bool {
	return s.Reason == "" && s.Message == "" && s.Code == 0 && s.Failures == 0 && len(s.Problems) == 0
}

// same reports whether the status is the reported one; the time does not count.
func (r *reported) same(s *health.ServiceStatus) bool {
	if r.state != s.State || r.frontends != s.Frontends || r.programmed != s.Programmed {
		return false
	}
	if r.wrong == nil {
		return isFine(s)
	}
	w := r.wrong
	return w.Reason == s.Reason && w.Message == s.Message && w.Code == s.Code && w.Failures == s.Failures &&
		slices.Equal(w.Problems, s.Problems)
}
