package kernel

import (
	"slices"
	"time"

	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// reportService reports one service if its status changed. settled says that HNS is known, so that what is done is
// programmed.
func (d *demand) reportService(name string, settled bool) {
	wants := d.services[name]
	if wants == nil {
		return
	}
	if wants.removed && !d.targets.isAnyOf(name) {
		delete(d.services, name)
		if wants.reported.state != "" {
			d.to.Service(health.ServiceStatus{Service: name, Removed: true})
		}
		return
	}

	s, done := d.status(name, wants)
	if s.State == wants.reported.state {
		s.Since = wants.reported.since
	}
	if !wants.reported.same(&s) {
		wants.reported = reportedOf(&s)
		d.to.Service(s)
	}
	if done && len(wants.triggered) > 0 && settled {
		for _, t := range wants.triggered {
			d.to.Programmed(t)
		}
		wants.triggered = nil
	}
}

// status sums up the targets of a service. done says that HNS is as wanted for all of them; those without backends
// count.
func (d *demand) status(name string, wants *serviceDemand) (s health.ServiceStatus, done bool) {
	s = health.ServiceStatus{Service: name, State: health.Programmed, Since: time.Now()}
	s.Problems = slices.Clone(wants.state.Problems)
	done = d.complete

	for _, key := range wants.keys {
		t := d.targets.at(key)
		if t == nil || t.service != name {
			continue
		}
		if t.derived {
			if t.state == health.Failed && t.failure.streak >= enduring {
				s.Problems = append(s.Problems, derivedProblem(name, t))
			}
			continue
		}

		done = done && t.done
		s.Problems = append(s.Problems, t.limits...)
		if refused := d.accessProblem(name, key); refused.Reason != "" {
			s.Problems = append(s.Problems, refused)
		}
		if t.state != "" {
			s.Frontends++
		}
		switch t.state {
		case health.Programmed:
			s.Programmed++
		case health.Pending:
			if s.State == health.Programmed {
				s.State = health.Pending
			}
		case health.Failed:
			if s.State != health.Failed || t.failure.failures > s.Failures {
				s.State = health.Failed
				s.Reason = t.failure.Reason
				s.Message = t.failure.Text
				s.Code, s.Failures = t.failure.code, t.failure.failures
			}
		}
	}
	return s, done
}

// derivedProblem says what the failure of a derived frontend means for the service.
func derivedProblem(name string, t *target) service.Problem {
	if t.f != nil && t.f.Kind == balance.HealthCheck {
		return service.Problem{Service: name, Reason: "HealthCheckForwarding",
			Text: "its load balancer address does not answer health checks on this node: " + t.failure.Text}
	}
	return service.Problem{Service: name, Reason: reasonFromNode,
		Text: "programs of this node do not reach the node port, others do: " + t.failure.Text}
}
