package kubelet

import (
	"cmp"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
)

// publish hands the status on: to the API, and to those who read the view.
func (a *actor) publish(plan *pod.Plan) {
	s := a.state
	if s.Pod() == nil || s.Runtime() == nil {
		return
	}

	plan.Status.ContainerStatuses = a.tools.Allot.WithHealth(s.Pod(), plan.Status.ContainerStatuses)
	last := s.Last()
	changed := last == nil || !reflect.DeepEqual(*last, plan.Status)
	if changed {
		a.meter.Life().Status(cmp.Or(last, &s.Pod().Status), &plan.Status)
	}
	switch {
	case s.Static():
		a.publishMirror(plan, changed)
	case !s.Gone() && (changed || plan.Delete):
		a.status.Set(s.Pod(), plan.Status, plan.Delete, urgent(s, plan))
	}

	if !a.ran && plan.Status.Phase == v1.PodRunning {
		a.ran = true
		if last != nil && last.Phase == v1.PodPending {
			a.meter.Running(s.Pod(), a.born, time.Now(), a.effects.Pulled())
		}
	}

	if changed {
		a.take(pod.Published{Status: plan.Status}, time.Now())
	}

	view := s.View(plan.Status)
	view.Stopping, view.Stopped = plan.Stopping, plan.Stopped
	a.view.Store(view)
}

// publishMirror hands on the status of a static pod: the mirror gets it, if there is one.
func (a *actor) publishMirror(plan *pod.Plan, changed bool) {
	s := a.state
	m := a.statics.MirrorOf(s.Pod())
	if m == nil || m.DeletionTimestamp != nil || a.mirror == m.UID && !changed {
		return
	}

	last := s.Last()
	soon := last == nil || last.Phase != plan.Status.Phase || isReady(last) != isReady(&plan.Status)
	a.mirror = m.UID
	a.status.Set(m, plan.Status, false, soon)
}

// urgent reports whether others wait for this status: the phase is another, or the readiness.
func urgent(s *pod.State, plan *pod.Plan) bool {
	known := s.Last()
	if known == nil {
		known = &s.Pod().Status
	}
	other := known.Phase != plan.Status.Phase || isReady(known) != isReady(&plan.Status) && !restarting(plan)
	return other && !vanishing(s.Pod())
}

// restarting reports whether a pod that goes on waits for a container of its own to run again, which is soon over:
// then its not being ready is not worth a message of its own.
func restarting(plan *pod.Plan) bool {
	if plan.Stopping || isReady(&plan.Status) {
		return false
	}
	for _, c := range plan.Status.ContainerStatuses {
		if c.State.Running == nil && (c.State.Terminated != nil || c.LastTerminationState.Terminated != nil) {
			return true
		}
	}
	return false
}

// vanishing reports whether the pod was deleted without any grace: then the API forgets it at once, unless a finalizer
// keeps it, and what becomes of it here is soon of no interest.
func vanishing(p *v1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}

func isReady(st *v1.PodStatus) bool {
	for _, c := range st.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
