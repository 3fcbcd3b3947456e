package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
)

// waiter is a resize for which there was no room. The node takes them in turn when something is given back.
type waiter struct {
	pod         *v1.Pod
	want        claim
	allocatable v1.ResourceList
	since       time.Time
}

// resize gives a pod that has its place room for what it now asks for, or says why not. One that does not fit waits:
// granted is called when it has got its room after all.
func (m *admitter) resize(p *v1.Pod, allocatable v1.ResourceList) *refusal {
	want := claimOf(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := fits(want.requests, allocatable, m.others(p.UID)); r != nil {
		since := time.Now()
		if old := m.waiting[p.UID]; old != nil {
			since = old.since
		}
		m.waiting[p.UID] = &waiter{p, want, allocatable, since}
		return r
	}
	delete(m.waiting, p.UID)
	m.held[p.UID] = want
	m.regrant()
	return nil
}

// keep ends the wait of a pod that is content with what it has.
func (m *admitter) keep(p *v1.Pod) {
	want := claimOf(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[p.UID] == nil && requestsEqual(m.held[p.UID], want) {
		return
	}
	delete(m.waiting, p.UID)
	m.held[p.UID] = want
	m.regrant()
}

func requestsEqual(a, b claim) bool {
	less := func(a, b v1.ResourceList) bool {
		for name, q := range a {
			if other := b[name]; q.Cmp(other) != 0 {
				return false
			}
		}
		return true
	}
	return less(a.requests, b.requests) && less(b.requests, a.requests)
}

// regrant gives room to those that wait and now fit; the caller holds the lock.
func (m *admitter) regrant() {
	var queue []*waiter
	for _, w := range m.waiting {
		queue = append(queue, w)
	}
	slices.SortFunc(queue, before)
	for _, w := range queue {
		if fits(w.want.requests, w.allocatable, m.others(w.pod.UID)) == nil {
			delete(m.waiting, w.pod.UID)
			m.held[w.pod.UID] = w.want
			m.granted(w.pod.UID)
		}
	}
}

// before is upstream's order: priority, then class, then who has waited longer.
func before(a, b *waiter) int {
	priority := func(p *v1.Pod) int32 {
		if p.Spec.Priority == nil {
			return 0
		}
		return *p.Spec.Priority
	}
	class := func(p *v1.Pod) int {
		if p.Status.QOSClass == v1.PodQOSGuaranteed {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(priority(b.pod), priority(a.pod)), cmp.Compare(class(a.pod), class(b.pod)), a.since.Compare(b.since),
		cmp.Compare(a.pod.UID, b.pod.UID))
}

// others are the claims of all pods but one; the caller holds the lock.
func (m *admitter) others(uid types.UID) []claim {
	out := make([]claim, 0, len(m.held))
	for other, c := range m.held {
		if other != uid {
			out = append(out, c)
		}
	}
	return out
}

// allocate gives the actor's pod the shape that the node has agreed to, and asks whether what it wants can be had.
// s.Pod is new whenever a source has said something; the shaped pod takes its place.
func (a *actor) allocate(ctx context.Context) {
	s := &a.state
	if s.Pod == nil || s.Runtime == nil || s.Static {
		return
	}
	fresh := s.Pod != a.shaped
	if fresh {
		a.desired = s.Pod
	}
	r := &s.Resize
	if r.Allocated == nil || fresh && !s.Admitted {
		a.recall(ctx)
	}
	if !fresh && a.desired == s.Pod { // it has what it wants
		return
	}
	switch {
	case !s.Admitted || !s.StopSince.IsZero() || s.Stop != nil || s.Gone || a.desired.DeletionTimestamp != nil:
		r.Pending = nil
	case r.Allocated.Same(a.desired):
		r.Pending = nil
		a.k.admit.keep(a.desired)
	case a.sourcesReady:
		a.askResize(ctx)
	}
	if fresh || r.Allocated.Same(a.desired) {
		s.Pod = r.Allocated.Apply(a.desired)
		a.shaped = s.Pod
	}
}

// Why a Windows node refuses; upstream's words.
const windowsResize = "In-place pod resize is not supported on Windows"

// askResize decides about a pod that wants other resources than it has.
func (a *actor) askResize(ctx context.Context) {
	s, want := &a.state, a.desired
	r := &s.Resize
	refused := &refusal{v1.PodReasonInfeasible, windowsResize}
	if !a.k.o.Windows {
		refused = a.k.admit.resize(want, a.k.NodeAllocatable())
	}
	if refused == nil {
		before := *r
		now := pod.ResourcesOf(want)
		r.Allocated, r.Generation, r.Open, r.Pending = &now, want.Generation, true, nil
		if err := a.remember(); err != nil { // else the next kubelet would not know: try again
			klog.FromContext(ctx).Error(err, "A resize cannot be noted", "pod", a.uid)
			*r = before
			return
		}
		delete(s.Failures, pod.ResizeKey)
		a.event(want, "", v1.EventTypeNormal, "ResizeStarted", pod.ResizeMessage("Pod resize started", want, want.Generation, ""))
		return
	}
	p := &pod.Pending{Reason: v1.PodReasonDeferred, Message: refused.message, Generation: want.Generation}
	if refused.reason == v1.PodReasonInfeasible {
		p.Reason = v1.PodReasonInfeasible
	}
	if old := r.Pending; old == nil || old.Reason != p.Reason || old.Generation != p.Generation {
		a.event(want, "", v1.EventTypeWarning, "Resize"+p.Reason, pod.ResizeMessage("Pod resize "+p.Reason, want, want.Generation, p.Message))
	}
	r.Pending = p
}

// recall finds out what the pod had been given: by the note of an earlier kubelet, or else by what its containers were made
// with. What neither tells is as the pod asks for it.
func (a *actor) recall(ctx context.Context) {
	s := &a.state
	s.Resize = pod.Resize{}
	text, err := os.ReadFile(a.notePath())
	if err == nil {
		err = json.Unmarshal(text, &s.Resize)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		klog.FromContext(ctx).Error(err, "The note of what a pod had been given cannot be read", "pod", a.uid)
	}
	if s.Resize.Allocated != nil {
		return
	}
	all := pod.ResourcesOf(a.desired)
	for name := range all.Containers {
		if c, ok := s.Runtime.Latest(name); ok && c.MadeWith != nil && c.State == pod.Running {
			all.Containers[name] = *c.MadeWith
		}
	}
	s.Resize = pod.Resize{Allocated: &all, Generation: a.desired.Generation}
}

func (a *actor) notePath() string {
	return filepath.Join(a.k.o.RootDir, "pods", string(a.uid), "resources.json")
}

// remember notes what the pod has been given, for the next kubelet. A pod that was never resized needs no note.
func (a *actor) remember() error {
	for id := range a.state.Resize.Actuated {
		if _, ok := a.state.Runtime.Find(id); !ok {
			delete(a.state.Resize.Actuated, id)
		}
	}
	text, err := json.Marshal(a.state.Resize)
	if err != nil {
		return fmt.Errorf("encoding what the pod has been given: %w", err)
	}
	path := a.notePath()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("making the folder of the pod: %w", err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("noting what the pod has been given: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("noting what the pod has been given: %w", err)
	}
	return nil
}

// resizePod changes what runs: the pod's cgroup first where it grows, last where it shrinks, and its containers in between.
func (a *actor) resizePod(ctx context.Context, p *v1.Pod, x pod.Action, limits map[string]int64) fact {
	ctx = context.WithoutCancel(ctx)
	done := map[string]v1.ResourceRequirements{}
	err := a.checkMemory(ctx, p, x, limits)
	if err == nil {
		err = a.k.o.Cgroups.Resize(p, func() error {
			for _, u := range x.Updates {
				c := findContainer(p, u.Name)
				if err := a.k.o.Runtime.UpdateResources(ctx, u.ID, p, c); err != nil {
					return err
				}
				done[u.ID] = *c.Resources.DeepCopy()
			}
			return nil
		})
	}
	seen := a.reread(ctx) // the runtime sends no event about it
	return func(s *pod.State) {
		seen(s)
		if s.Resize.Actuated == nil {
			s.Resize.Actuated = map[string]v1.ResourceRequirements{}
		}
		for id, r := range done {
			s.Resize.Actuated[id] = r
		}
		if err != nil {
			fail(s, pod.ResizeKey, err, v1.PodReasonError, resizeRetry)
		} else {
			delete(s.Failures, pod.ResizeKey)
			if s.Resize.Allocated != nil && s.Resize.Allocated.Same(p) {
				s.Resize.Open = false
			}
		}
		if noteErr := a.remember(); noteErr != nil { // the next kubelet would do it once more
			klog.FromContext(ctx).Error(noteErr, "A resize cannot be noted", "pod", a.uid)
		}
	}
}

// resizeRetry is how long a resize that failed rests, at first.
const resizeRetry = 2 * time.Second

// checkMemory fails, in upstream's words, when a container uses more memory than its new limit, for the kernel would kill
// it. limits are those that its containers have now, by id; 0 is none.
func (a *actor) checkMemory(ctx context.Context, p *v1.Pod, x pod.Action, limits map[string]int64) error {
	for _, u := range x.Updates {
		limit := findContainer(p, u.Name).Resources.Limits.Memory().Value()
		if have := limits[u.ID]; limit == 0 || have != 0 && limit >= have {
			continue
		}
		used, err := a.k.o.Runtime.MemoryUsage(ctx, u.ID)
		if err != nil {
			return err
		}
		if used >= limit {
			return fmt.Errorf("cannot decrease memory limits: attempting to set container %q memory limit (%d) below current usage (%d)", u.Name, limit, used)
		}
	}
	return nil
}

// memoryLimits are those that the containers of a resize have now, by id.
func (a *actor) memoryLimits(x pod.Action) map[string]int64 {
	out := map[string]int64{}
	for _, u := range x.Updates {
		if c, ok := a.state.Runtime.Find(u.ID); ok {
			out[u.ID] = c.Given.Memory
		}
	}
	return out
}
