package pod

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resources "k8s.io/component-helpers/resource"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// planResize plans to change the resources of what runs. It reports true while that is under way: then no container
// starts. Containers that must end for it end first, since a limit cannot fall below what they use.
func planResize(s *State, d *decision) (busy bool) {
	if !s.Resizing() {
		return false
	}
	list, ends := s.resize.updates(s.pod, s.runtime.Runtime)
	if !ends {
		d.try(s.tasks, Action{Kind: ResizePod, Key: ResizeKey, Updates: list})
	}
	return true
}

// resizeConditions adds the conditions that show the progress of a resize, in upstream's words.
func resizeConditions(st *v1.PodStatus, s *State, last *v1.PodStatus, now time.Time) {
	set := func(c v1.PodCondition) {
		c.Status, c.LastTransitionTime = v1.ConditionTrue, metav1.NewTime(now.Truncate(time.Second))
		if old := findCondition(last, c.Type); old != nil && old.Reason == c.Reason {
			c.LastTransitionTime = old.LastTransitionTime
		}
		st.Conditions = append(st.Conditions, c)
	}
	if terminal(st.Phase) {
		return
	}
	if p := s.resize.Pending; p != nil {
		set(v1.PodCondition{Type: v1.PodResizePending, Reason: p.Reason, Message: p.Message,
			ObservedGeneration: p.Generation})
	}
	if s.Resizing() {
		c := v1.PodCondition{Type: v1.PodResizeInProgress, ObservedGeneration: s.resize.Generation}
		if f := s.tasks.failures[ResizeKey]; f != nil {
			c.Reason, c.Message = v1.PodReasonError, f.Message
		}
		set(c)
	}
}

// resizeEvents adds the events of a resize that failed or ended since the latest published status.
func resizeEvents(s *State, p *Plan) {
	before := findCondition(lastStatus(s), v1.PodResizeInProgress)
	now := findCondition(&p.Status, v1.PodResizeInProgress)
	switch {
	case now != nil && now.Reason != "" && (before == nil || before.Reason == ""):
		p.Events = append(p.Events,
			Event{Key: fmt.Sprintf("resize-%d", now.ObservedGeneration), Type: v1.EventTypeWarning,
				Reason:  "ResizeError",
				Message: resizeMessage("Pod resize error", s.pod, now.ObservedGeneration, now.Message)})
	case before != nil && now == nil && !p.Stopping:
		p.Events = append(p.Events,
			Event{Key: fmt.Sprintf("resize-%d", before.ObservedGeneration), Type: v1.EventTypeNormal,
				Reason:  "ResizeCompleted",
				Message: resizeMessage("Pod resize completed", s.pod, before.ObservedGeneration, "")})
	}
}

// Below these values, in milli-CPUs, the kernel does not distinguish requests and limits, so that the status shows
// what was asked for: the smallest quota in a period of 100 ms, and the smallest cpu.shares, which upstream takes for
// milli-CPUs.
const (
	leastLimit   = 10
	leastRequest = 2
)

// shownResources returns the resources that a running container has: what is allocated, with the values that the
// runtime reports in place of those that it was told.
func shownResources(s *State, c *v1.Container, cur *observed.Container) *v1.ResourceRequirements {
	out := c.Resources.DeepCopy()
	g := cur.Given
	if out.Limits != nil {
		milli := int64(0)
		if g.Period > 0 && g.Quota > 0 {
			milli = g.Quota * 1000 / g.Period
		}
		if milli > 0 && (milli > leastLimit || out.Limits.Cpu().MilliValue() > leastLimit) {
			out.Limits[v1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
		if g.Memory > 0 {
			out.Limits[v1.ResourceMemory] = *resource.NewQuantity(g.Memory, resource.BinarySI)
		}
	}

	if out.Requests != nil {
		milli := (g.Shares*1000 + 1023) / 1024
		if milli > 0 && (milli > leastRequest || out.Requests.Cpu().MilliValue() > leastRequest) {
			out.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
		if q, ok := s.resize.has(s.pod, c, cur).Requests[v1.ResourceMemory]; ok {
			out.Requests[v1.ResourceMemory] = q
		}
	}

	return out
}

// wholeResources returns what the pod as a whole is allocated, and what its cgroup has: the same, but while a resize
// is open what was published last, because the cgroup may still have that.
func wholeResources(s *State, last *v1.PodStatus) (allocated v1.ResourceList, has *v1.ResourceRequirements) {
	requests, limits := resources.PodRequests(s.pod, resources.PodResourcesOptions{}), resources.PodLimits(s.pod,
		resources.PodResourcesOptions{})
	if len(requests) > 0 {
		allocated = requests
	}
	if s.resize.Open && last.Resources != nil {
		return allocated, last.Resources
	}
	if len(requests)+len(limits) > 0 {
		has = &v1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	return allocated, has
}
