package pod

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// The part of a walk that changes the pod's resources: some containers restart for it, and the node keeps a note of how
// far it is, as a kubelet that is killed finds it.

func (w *walk) anySize() v1.ResourceRequirements {
	return needs(fmt.Sprintf("%dm", 10+w.rand.IntN(3)), fmt.Sprintf("%dMi", 10+w.rand.IntN(3)))
}

func (w *walk) sizes() {
	for i := range w.api.Spec.Containers {
		c := &w.api.Spec.Containers[i]
		c.Resources = w.anySize()
		if w.rand.IntN(2) == 0 {
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		}
	}
	r := ResourcesOf(w.api)
	w.note = Resize{Allocated: &r, Actuated: map[string]v1.ResourceRequirements{}}
}

// resize lets the node agree to other resources.
func (w *walk) resize() {
	i := w.rand.IntN(len(w.api.Spec.Containers))
	w.api = w.api.DeepCopy()
	w.api.Spec.Containers[i].Resources = w.anySize()
	r := ResourcesOf(w.api)
	w.say("%s is to have %v", w.api.Spec.Containers[i].Name, w.api.Spec.Containers[i].Resources.Limits)
	w.state.Pod = w.api
	w.state.Resize.Allocated, w.state.Resize.Open = &r, true
	w.note = w.state.Resize
}

// resized ends a ResizePod that was planned for p.
func (w *walk) resized(a Action, p *v1.Pod, well bool) {
	s := w.state
	for n, u := range a.Updates {
		if !well && n > 0 {
			break
		}
		s.Resize.Actuated[u.ID] = ResourcesOf(p).Containers[u.Name]
	}
	if well {
		delete(s.Failures, ResizeKey)
		s.Resize.Open = s.Resize.Open && !s.Resize.Allocated.Same(p)
	} else {
		s.Failures[ResizeKey] = &Failure{Reason: v1.PodReasonError, RetryAt: w.now.Add(time.Second)}
	}
	w.note = s.Resize
}

// restartsFor tells whether a container has to end for its new resources.
func (w *walk) restartsFor(c *Container) bool {
	for i := range w.state.Pod.Spec.Containers {
		if spec := &w.state.Pod.Spec.Containers[i]; spec.Name == c.Name {
			return resizeRestarts(w.state, spec, c)
		}
	}
	return false
}

// checkSizes: at rest, what runs has what its spec says.
func (w *walk) checkSizes() {
	if w.plan.Status.Phase != v1.PodRunning {
		return
	}
	if w.state.Resize.Open || condition(&w.plan.Status, v1.PodResizeInProgress) != nil {
		w.fatal("it rests in the middle of a resize")
	}
	want := ResourcesOf(w.api).Containers
	for _, c := range w.runtime.Containers {
		has, told := w.state.Resize.Actuated[c.ID]
		if !told {
			has = *c.MadeWith
		}
		if c.State == Running && !equality.Semantic.DeepEqual(has, want[c.Name]) {
			w.fatal("%s has %v, not %v", c.ID, has.Limits, want[c.Name].Limits)
		}
	}
}
