package userspace

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// statuses are the states of the services, by name.
type statuses map[string]health.ServiceStatus

// update takes in the outcome of a pass and returns the statuses that changed, in the order of their names. Every pass
// counts as an attempt.
func (s statuses) update(states map[string]service.State, failed map[service.Key]service.Problem,
	now time.Time) (changed []health.ServiceStatus) {
	for _, name := range slices.Sorted(maps.Keys(states)) {
		state := states[name]
		old, known := s[name]
		if len(state.Frontends) == 0 && len(state.Problems) == 0 {
			if known {
				delete(s, name)
				changed = append(changed, health.ServiceStatus{Service: name, Removed: true, Since: now})
			}
			continue
		}

		next := statusOf(state, failed)
		next.Since = now
		if known && old.State == next.State {
			next.Since = old.Since
		}
		if next.State == health.Failed {
			next.Failures = 1
			if known && old.Reason == next.Reason {
				next.Failures = old.Failures + 1
			}
		}
		s[name] = next
		if !known || !reflect.DeepEqual(old, next) {
			changed = append(changed, next)
		}
	}
	return changed
}

// statusOf returns the status of one service. It counts only frontends that are served at all; the message is about
// the first failed one in the order of their keys, so that it does not change from pass to pass.
func statusOf(state service.State, failed map[service.Key]service.Problem) health.ServiceStatus {
	out := health.ServiceStatus{Service: state.Service, State: health.Programmed, Problems: state.Problems}
	frontends := slices.SortedFunc(slices.Values(state.Frontends), func(a, b service.Frontend) int {
		return cmp.Compare(a.Key.String(), b.Key.String())
	})
	for i := range frontends {
		f := &frontends[i]
		why, bad := failed[f.Key]
		if served(f) {
			out.Frontends++
			if !bad {
				out.Programmed++
			}
		}
		if bad && out.State != health.Failed {
			out.State = health.Failed
			out.Reason = why.Reason
			out.Message = fmt.Sprintf("%s: %s", f.Key, why.Text)
		}
	}
	return out
}

// pass counts frontends over all services.
func (s statuses) pass() (p health.Pass) {
	for _, one := range s {
		p.Wanted += one.Frontends
		p.Programmed += one.Programmed
	}
	p.Failed = p.Wanted - p.Programmed
	return p
}
