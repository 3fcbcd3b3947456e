package pod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resources "k8s.io/component-helpers/resource"
)

// needed returns the resources that a container should run with.
func needed(s *State, c *v1.Container) v1.ResourceRequirements {
	return InPod(c.Resources, PodLimits(s.pod))
}

// actuated returns the resources that a container runs with. A container without a record of them, which another
// kubelet made, counts as made with what is allocated.
func actuated(s *State, c *v1.Container, cur *Container) v1.ResourceRequirements {
	if r, ok := s.resize.Actuated[cur.ID]; ok {
		return r
	}
	if cur.MadeWith != nil {
		return InPod(*cur.MadeWith, cur.MadeIn)
	}
	return needed(s, c)
}

// differs returns which of the resources that can be resized differ between what a container has and what it should
// have.
func differs(have, want v1.ResourceRequirements) (names []v1.ResourceName) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if compare(have.Requests, want.Requests, name) != 0 || compare(have.Limits, want.Limits, name) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func compare(a, b v1.ResourceList, name v1.ResourceName) int {
	x, y := a[name], b[name]
	return x.Cmp(y)
}

// resizeRestarts reports whether a running container must end for its new resources.
func resizeRestarts(s *State, c *v1.Container, cur *Container) bool {
	for _, name := range differs(actuated(s, c, cur), needed(s, c)) {
		if slices.ContainsFunc(c.ResizePolicy, func(p v1.ContainerResizePolicy) bool {
			return p.ResourceName == name && p.RestartPolicy == v1.RestartContainer
		}) {
			return true
		}
	}
	return false
}

// updates returns the running containers that do not have their resources yet; those that get less come first.
// restarts reports whether one of them has to end for it.
func updates(s *State) (list []Update, restarts bool) {
	type ranked struct {
		Update
		rank int
	}

	var all []ranked
	for _, spec := range [][]v1.Container{s.pod.Spec.InitContainers, s.pod.Spec.Containers} {
		for i := range spec {
			c := &spec[i]
			cur, _ := s.runtime.latest(c.Name)
			if cur == nil || cur.State != Running {
				continue
			}
			have, want := actuated(s, c, cur), needed(s, c)
			if len(differs(have, want)) == 0 {
				continue
			}
			restarts = restarts || resizeRestarts(s, c, cur)
			rank := cmp.Or(compare(want.Limits, have.Limits, v1.ResourceMemory),
				compare(want.Limits, have.Limits, v1.ResourceCPU),
				compare(want.Requests, have.Requests, v1.ResourceCPU))
			all = append(all, ranked{Update{ID: cur.ID, Name: c.Name}, rank})
		}
	}

	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for _, r := range all {
		list = append(list, r.Update)
	}
	return list, restarts
}

// Resizing reports whether the pod or a container does not have yet what is allocated.
func (s *State) Resizing() bool {
	if s.pod == nil || s.runtime == nil || s.resize.Allocated == nil {
		return false
	}
	list, _ := updates(s)
	return s.resize.Open || len(list) > 0
}

// resize plans to change the resources of what runs. It reports true while that is under way: then no container starts.
// Containers that must end for it end first, since a limit cannot fall below what they use.
func resize(s *State, d *decision) (busy bool) {
	if !s.Resizing() {
		return false
	}
	list, restarts := updates(s)
	if !restarts {
		whenDue(s.failures[ResizeKey], d.now, d.plan,
			func() { d.plan.do(s, Action{Kind: ResizePod, Key: ResizeKey, Updates: list}) })
	}
	return true
}

// resizeConditions adds the conditions that show the progress of a resize, in upstream's words.
func resizeConditions(st *v1.PodStatus, s *State, last *v1.PodStatus, now time.Time) {
	set := func(c v1.PodCondition) {
		c.Status, c.LastTransitionTime = v1.ConditionTrue, metav1.NewTime(now.Truncate(time.Second))
		if old := condition(last, c.Type); old != nil && old.Reason == c.Reason {
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
		if f := s.failures[ResizeKey]; f != nil {
			c.Reason, c.Message = v1.PodReasonError, f.Message
		}
		set(c)
	}
}

func condition(st *v1.PodStatus, kind v1.PodConditionType) *v1.PodCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == kind {
			return &st.Conditions[i]
		}
	}
	return nil
}

// resizeEvents adds the events of a resize that failed or ended since the latest published status.
func resizeEvents(s *State, p *Plan) {
	before, now := condition(lastStatus(s), v1.PodResizeInProgress), condition(&p.Status, v1.PodResizeInProgress)
	switch {
	case now != nil && now.Reason != "" && (before == nil || before.Reason == ""):
		p.Events = append(p.Events,
			Event{Key: fmt.Sprintf("resize-%d", now.ObservedGeneration), Type: v1.EventTypeWarning,
				Reason:  "ResizeError",
				Message: ResizeMessage("Pod resize error", s.pod, now.ObservedGeneration, now.Message)})
	case before != nil && now == nil && !p.Stopping:
		p.Events = append(p.Events,
			Event{Key: fmt.Sprintf("resize-%d", before.ObservedGeneration), Type: v1.EventTypeNormal,
				Reason:  "ResizeCompleted",
				Message: ResizeMessage("Pod resize completed", s.pod, before.ObservedGeneration, "")})
	}
}

// ResizeMessage returns the text of an event about a resize, in upstream's form: what happened, and the pod's
// resources as JSON.
func ResizeMessage(what string, p *v1.Pod, generation int64, failure string) string {
	type one struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources,omitempty"`
	}

	var all struct {
		InitContainers []one  `json:"initContainers,omitempty"`
		Containers     []one  `json:"containers,omitempty"`
		Generation     int64  `json:"generation"`
		Error          string `json:"error,omitempty"`
	}

	all.Generation, all.Error = generation, failure
	for i := range p.Spec.InitContainers {
		all.InitContainers = append(all.InitContainers,
			one{p.Spec.InitContainers[i].Name, p.Spec.InitContainers[i].Resources})
	}

	for i := range p.Spec.Containers {
		all.Containers = append(all.Containers, one{p.Spec.Containers[i].Name, p.Spec.Containers[i].Resources})
	}

	text, err := json.Marshal(all)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
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
func shownResources(s *State, c *v1.Container, cur *Container) *v1.ResourceRequirements {
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
		if q, ok := actuated(s, c, cur).Requests[v1.ResourceMemory]; ok {
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
