package pod

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
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
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory,
				RestartPolicy: v1.RestartContainer}}
		}
	}
	r := desired.ResourcesOf(w.api)
	w.note = Resize{Allocated: &r, Actuated: map[string]v1.ResourceRequirements{}}
}

// resize asks for other resources.
func (w *walk) resize() {
	i := w.rand.IntN(len(w.api.Spec.Containers))
	w.api.Spec.Containers[i].Resources = w.anySize()
	w.api.Generation++
	w.say("%s is to have %v", w.api.Spec.Containers[i].Name, w.api.Spec.Containers[i].Resources.Limits)
	w.take(Desired{Pod: w.api.DeepCopy()})
}

// askNode plays the node before a pass: it admits the pod, finds the note, and agrees to a resize or lets it wait.
func (w *walk) askNode() {
	for range 3 {
		switch w.state.ResizeStep() {
		case ReadResizeNote:
			note := w.note
			w.take(Recalled{Note: &note})
			continue
		case KeepRoom, DropResize:
			w.take(ResizeSettled{})
		case AskRoom:
			if !w.calm && w.rand.IntN(3) == 0 {
				w.take(ResizeRefused{Reason: v1.PodReasonDeferred})
				break
			}
			w.note = w.state.AgreedNote()
			w.take(ResizeAgreed{})
		}
		break
	}
	if w.state.NeedsAdmission() {
		w.take(Admitted{})
	}
}

// resized ends a ResizePod that was planned for p.
func (w *walk) resized(a Action, p *v1.Pod, well bool) Fact {
	f := Resized{Resources: desired.ResourcesOf(p), Actuated: map[string]v1.ResourceRequirements{}, Failed: !well}
	for n, u := range a.Updates {
		if !well && n > 0 {
			break
		}
		f.Actuated[u.ID] = f.Resources.Containers[u.Name]
	}
	return f
}

// restartsFor reports whether a container has to end for its new resources.
func (w *walk) restartsFor(c *observed.Container) bool {
	for app := range desired.Apps(w.state.Pod()) {
		if app.Name == c.Name {
			return w.state.resize.restarts(w.state.Pod(), app, c)
		}
	}
	return false
}

// checkSizes: at rest, what runs has what its spec says.
func (w *walk) checkSizes() {
	if w.plan.Status.Phase != v1.PodRunning {
		return
	}
	if w.state.resize.Open || findCondition(&w.plan.Status, v1.PodResizeInProgress) != nil {
		w.fatal("it rests in the middle of a resize")
	}
	want := desired.ResourcesOf(w.api).Containers
	for _, c := range w.runtime.Containers {
		has, told := w.state.resize.Actuated[c.ID]
		if !told {
			has = *c.MadeWith
		}
		if c.State == observed.Running && !equality.Semantic.DeepEqual(has, want[c.Name]) {
			w.fatal("%s has %v, not %v", c.ID, has.Limits, want[c.Name].Limits)
		}
	}
}
