package pod

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// Resize is the progress of a change of the pod's resources. State.Pod asks for what is allocated.
type Resize struct {
	// Allocated is what the node has agreed to; nil until the note of an earlier kubelet was read.
	Allocated *desired.Resources `json:"allocated,omitempty"`
	// Generation is that of the pod that asked for it.
	Generation int64 `json:"generation,omitempty"`
	// Open is set while the cgroup of the pod may still have the earlier limits.
	Open bool `json:"open,omitempty"`
	// Actuated has, by container id, the resources that the runtime was last told (desired.InPod), if they are not
	// those that the container was made with.
	Actuated map[string]v1.ResourceRequirements `json:"actuated,omitempty"`
	// Pending is why the pod does not have what it asks for; nil if it has.
	Pending *Pending `json:"-"`
}

// Pending is a resize that the node did not agree to. Reason is v1.PodReasonDeferred or v1.PodReasonInfeasible.
type Pending struct {
	Reason, Message string
	Generation      int64
}

// same reports whether both say the same of the same version of the pod.
func (p *Pending) same(other *Pending) bool {
	return other != nil && p.Reason == other.Reason && p.Generation == other.Generation
}

// resizeState is what the node has agreed to give a pod, and how far its containers have it.
type resizeState struct {
	Resize
	// noted is set once the note of an earlier kubelet was read for this version of the pod, settled once the node has
	// answered the request of this version.
	noted, settled bool
}

// renew begins with another version of the pod, which may ask for something else.
func (r *resizeState) renew() { r.noted, r.settled = false, false }

// recall takes over the note of an earlier kubelet. A pod that was never resized has none. Then its running containers
// say what they were made with, because the spec may have changed while no kubelet ran.
func (r *resizeState) recall(note *Resize, p *v1.Pod, has *observed.Runtime) {
	r.Resize, r.noted = Resize{}, true
	if note != nil {
		r.Resize = *note
	}
	if r.Allocated != nil {
		return
	}

	made := desired.ResourcesOf(p)
	for name := range made.Containers {
		if c, ok := has.Latest(name); ok && c.MadeWith != nil && c.State == observed.Running {
			made.Containers[name] = *c.MadeWith
		}
	}
	r.Resize = Resize{Allocated: &made, Generation: p.Generation}
}

// agree gives the pod what it asks for. note is what was written down for the next kubelet.
func (r *resizeState) agree(note Resize) { r.Resize, r.settled = note, true }

// keep ends a request without a change.
func (r *resizeState) keep() { r.settled, r.Pending = true, nil }

// told notes what the runtime was told of containers, by container id.
func (r *resizeState) told(actuated map[string]v1.ResourceRequirements) {
	all := maps.Clone(r.Actuated)
	if all == nil {
		all = map[string]v1.ResourceRequirements{}
	}
	maps.Copy(all, actuated)
	r.Actuated = all
}

// surviving returns the note without containers that no longer exist.
func (r Resize) surviving(has *observed.Runtime) Resize {
	r.Actuated = maps.Clone(r.Actuated)
	maps.DeleteFunc(r.Actuated, func(id string, _ v1.ResourceRequirements) bool {
		_, ok := has.Find(id)
		return !ok
	})
	return r
}

// granted returns the note with all that p asks for.
func (r Resize) granted(p *v1.Pod) Resize {
	now := desired.ResourcesOf(p)
	r.Allocated, r.Generation, r.Open, r.Pending = &now, p.Generation, true, nil
	return r
}

// neededResources returns the resources that a container of the pod should run with.
func neededResources(p *v1.Pod, c *v1.Container) v1.ResourceRequirements {
	return desired.InPod(c.Resources, desired.PodLimits(p))
}

// has returns the resources that a container runs with. A container without a record of them, which another kubelet
// made, counts as made with what is allocated.
func (r Resize) has(p *v1.Pod, c *v1.Container, cur *observed.Container) v1.ResourceRequirements {
	if told, ok := r.Actuated[cur.ID]; ok {
		return told
	}
	if cur.MadeWith != nil {
		return desired.InPod(*cur.MadeWith, cur.MadeIn)
	}
	return neededResources(p, c)
}

// differingResources returns which of the resources that can be resized differ between what a container has and what it
// should have.
func differingResources(have, want v1.ResourceRequirements) (names []v1.ResourceName) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if compareAmount(have.Requests, want.Requests, name) != 0 ||
			compareAmount(have.Limits, want.Limits, name) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func compareAmount(a, b v1.ResourceList, name v1.ResourceName) int {
	x, y := a[name], b[name]
	return x.Cmp(y)
}

// restarts reports whether a running container must end for its new resources.
func (r Resize) restarts(p *v1.Pod, c *v1.Container, cur *observed.Container) bool {
	for _, name := range differingResources(r.has(p, c, cur), neededResources(p, c)) {
		if slices.ContainsFunc(c.ResizePolicy, func(policy v1.ContainerResizePolicy) bool {
			return policy.ResourceName == name && policy.RestartPolicy == v1.RestartContainer
		}) {
			return true
		}
	}
	return false
}

// updates returns the running containers that do not have their resources yet; those that get less come first.
// ends reports whether one of them has to end for it.
func (r Resize) updates(p *v1.Pod, runs *observed.Runtime) (list []Update, ends bool) {
	type ranked struct {
		Update
		rank int
	}

	var all []ranked
	for c := range desired.Containers(p) {
		cur := runs.Newest(c.Name)
		if cur == nil || cur.State != observed.Running {
			continue
		}
		have, want := r.has(p, c, cur), neededResources(p, c)
		if len(differingResources(have, want)) == 0 {
			continue
		}
		ends = ends || r.restarts(p, c, cur)
		rank := cmp.Or(compareAmount(want.Limits, have.Limits, v1.ResourceMemory),
			compareAmount(want.Limits, have.Limits, v1.ResourceCPU),
			compareAmount(want.Requests, have.Requests, v1.ResourceCPU))
		all = append(all, ranked{Update{ID: cur.ID, Name: c.Name}, rank})
	}

	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for _, u := range all {
		list = append(list, u.Update)
	}
	return list, ends
}

// resizeMessage returns the text of an event about a resize, in upstream's form: what happened, and the pod's
// resources as JSON.
func resizeMessage(what string, p *v1.Pod, generation int64, failure string) string {
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
	for c := range desired.Init(p) {
		all.InitContainers = append(all.InitContainers, one{c.Name, c.Resources})
	}
	for c := range desired.Apps(p) {
		all.Containers = append(all.Containers, one{c.Name, c.Resources})
	}

	text, err := json.Marshal(all)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}
