// Package status writes pod statuses to the API. Each pod has one slot that holds the newest status; a few senders empty
// the slots with strategic merge patches and without reading first. The last patch of a pod and its deletion go in order.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"
)

// client is implemented by internal/kube.
type client interface {
	PatchPodStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.Pod, error)
	DeletePod(ctx context.Context, namespace, name string, uid types.UID) error
}

// Waits: how long a change that is not urgent is held back for others to join it (most pods are Ready by then, and one
// request in place of three leaves the processors to their start), how much longer for each pod that waits already (many
// that start at once take longer) and how long at most; how soon a status that somebody else wrote over is put right, and
// the back-off of failed requests.
const (
	settle     = 500 * time.Millisecond
	settleEach = 200 * time.Millisecond
	settleMost = 10 * time.Second
	foreign    = 10 * time.Second
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
	senders    = 12
)

// Writer holds the slots.
type Writer struct {
	client client

	mu    sync.Mutex
	slots map[types.UID]*slot
	work  chan types.UID
	// settling is how many slots hold a change back.
	settling int
}

type slot struct {
	base   *v1.Pod // newest copy that we know to be in the API
	want   v1.PodStatus
	fresh  bool // want was set at least once
	delete bool
	// deleted: the deletion was sent; it is not repeated.
	deleted, queued, busy, again bool
	// since is when a change began to be held back, zero when none is; the newest is sent when that ends.
	since time.Time
	retry time.Duration
}

// New makes a Writer; Run sends.
func New(c client) *Writer {
	return &Writer{client: c, slots: map[types.UID]*slot{}, work: make(chan types.UID, 4096)}
}

// Run sends until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for {
				select {
				case uid := <-w.work:
					w.send(ctx, uid)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Wait()
}

// Observe takes the copy that a watch delivered.
func (w *Writer) Observe(p *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slots[p.UID]
	if s == nil {
		w.slots[p.UID] = &slot{base: p}
		return
	}
	if !newer(p, s.base) {
		return
	}
	s.base = p
	if s.fresh && !s.busy && !s.queued && !same(p.Status, Merge(p.Status, s.want)) {
		w.later(p.UID, s, foreign) // somebody else wrote; do not fight about it
	}
}

// Set puts a status into the pod's slot. With del the pod is deleted once it is written.
func (w *Writer) Set(p *v1.Pod, st v1.PodStatus, del, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slots[p.UID]
	if s == nil {
		s = &slot{base: p}
		w.slots[p.UID] = s
	}
	s.want, s.fresh = *st.DeepCopy(), true
	s.delete = s.delete || del

	// While a patch is under way base is out of date: then the next round compares.
	if !s.busy && same(s.base.Status, Merge(s.base.Status, s.want)) && (!s.delete || s.deleted) {
		return
	}
	if urgent || del || s.busy {
		w.later(p.UID, s, 0)
		return
	}
	w.settle(p.UID, s)
}

// settle queues a slot after others had time to join its change; the caller holds the lock.
func (w *Writer) settle(uid types.UID, s *slot) {
	if !s.since.IsZero() || s.queued {
		return
	}
	s.since = time.Now()
	w.settling++
	w.hold(uid, s, s.since, w.patience())
}

// patience is how long a change is held back while so many are; the caller holds the lock.
func (w *Writer) patience() time.Duration {
	return min(settle+time.Duration(w.settling-1)*settleEach, settleMost)
}

// hold queues a slot after wait, unless so many more changes are held back by then that it waits for them too.
func (w *Writer) hold(uid types.UID, s *slot, since time.Time, wait time.Duration) {
	time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.since != since { // it was sent with something urgent
			return
		}
		if more := time.Until(since.Add(w.patience())); more > 0 && w.slots[uid] == s {
			w.hold(uid, s, since, more)
			return
		}
		w.settled(s)
		if w.slots[uid] == s && !s.queued {
			w.later(uid, s, 0)
		}
	})
}

// settled ends the wait of a slot; the caller holds the lock.
func (w *Writer) settled(s *slot) {
	if !s.since.IsZero() {
		s.since = time.Time{}
		w.settling--
	}
}

// Forget drops the slot of a pod that is gone.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.slots[uid]; s != nil {
		w.settled(s)
	}
	delete(w.slots, uid)
}

// later queues a slot; the caller holds the lock.
func (w *Writer) later(uid types.UID, s *slot, wait time.Duration) {
	if s.busy {
		s.again = true
		return
	}
	if wait == 0 {
		select {
		case w.work <- uid:
			s.queued = true
			return
		default: // full: come back soon
			wait = firstRetry
		}
	}
	time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.slots[uid] == s && !s.queued {
			w.later(uid, s, 0)
		}
	})
}

func (w *Writer) send(ctx context.Context, uid types.UID) {
	w.mu.Lock()
	s := w.slots[uid]
	if s == nil || s.busy {
		w.mu.Unlock()
		return
	}
	s.queued, s.busy, s.again = false, true, false
	w.settled(s)
	base, want, del := s.base, s.want, s.delete && !s.deleted
	w.mu.Unlock()

	after, err := w.guarded(ctx, base, want)
	if err == nil && del {
		err = w.client.DeletePod(ctx, base.Namespace, base.Name, uid)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.busy = false
	if after != nil && newer(after, s.base) {
		s.base = after
	}

	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the pod is gone, or another one has its name
		s.deleted = s.deleted || del
		return
	case err != nil && ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, "Writing pod status failed", "pod", klog.KObj(base))
		s.retry = min(max(2*s.retry, firstRetry), lastRetry)
		w.later(uid, s, s.retry)
		return
	}

	s.retry = 0
	s.deleted = s.deleted || del
	if s.again || s.delete && !s.deleted {
		w.later(uid, s, 0)
	}
}

// guarded is write. A status that it cannot put into words is an error of this pod only.
func (w *Writer) guarded(ctx context.Context, base *v1.Pod, want v1.PodStatus) (after *v1.Pod, err error) {
	defer func() {
		if r := recover(); r != nil {
			after, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	return w.write(ctx, base, want)
}

// write patches the status if it differs and returns the pod as the API then has it, or nil.
func (w *Writer) write(ctx context.Context, base *v1.Pod, want v1.PodStatus) (*v1.Pod, error) {
	merged := Merge(base.Status, want)
	if same(base.Status, merged) {
		return nil, nil
	}
	patch, err := Patch(base, merged)
	if err != nil {
		return nil, err
	}
	return w.client.PatchPodStatus(ctx, base.Namespace, base.Name, patch)
}

// Patch is the strategic merge patch that turns the status of base into want. It carries the UID, so that it cannot hit
// another pod of the same name.
func Patch(base *v1.Pod, want v1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(v1.Pod{Status: base.Status})
	if err != nil {
		return nil, fmt.Errorf("encoding the old status: %w", err)
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: base.UID}, Status: want})
	if err != nil {
		return nil, fmt.Errorf("encoding the new status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("comparing statuses: %w", err)
	}
	return patch, nil
}

var owned = map[v1.PodConditionType]bool{v1.PodReadyToStartContainers: true, v1.PodInitialized: true, v1.PodReady: true,
	v1.ContainersReady: true, v1.PodScheduled: true, v1.PodResizePending: true, v1.PodResizeInProgress: true}

// Merge lays the node's status over what the API has: conditions of others stay, and a terminal phase is never left.
func Merge(base, want v1.PodStatus) v1.PodStatus {
	out := want
	out.Conditions = nil

	have := map[v1.PodConditionType]bool{}
	for _, c := range want.Conditions {
		if owned[c.Type] {
			out.Conditions = append(out.Conditions, c)
			have[c.Type] = true
		}
	}

	for _, c := range base.Conditions {
		if !owned[c.Type] {
			out.Conditions = append(out.Conditions, c)
			have[c.Type] = true
		}
	}
	for _, c := range want.Conditions { // ours to add, such as DisruptionTarget, but not to change
		if !have[c.Type] {
			out.Conditions = append(out.Conditions, c)
		}
	}

	if base.Phase == v1.PodFailed || base.Phase == v1.PodSucceeded {
		out.Phase = base.Phase
	}
	out.QOSClass, out.NominatedNodeName, out.ResourceClaimStatuses = base.QOSClass, base.NominatedNodeName, base.ResourceClaimStatuses
	out.ObservedGeneration = max(base.ObservedGeneration, want.ObservedGeneration)
	return out
}

// same compares as the API stores: order of conditions and parts of seconds do not count.
func same(a, b v1.PodStatus) bool {
	return equality.Semantic.DeepEqual(normalize(a), normalize(b))
}

func normalize(st v1.PodStatus) *v1.PodStatus {
	out := st.DeepCopy()
	conditions := map[v1.PodConditionType]v1.PodCondition{}
	for _, c := range out.Conditions {
		c.LastProbeTime = metav1.Time{}
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Truncate(time.Second).UTC())
		conditions[c.Type] = c
	}
	out.Conditions = nil
	for _, t := range sortedTypes(conditions) {
		out.Conditions = append(out.Conditions, conditions[t])
	}

	second := func(t *metav1.Time) {
		if t != nil {
			*t = metav1.NewTime(t.Truncate(time.Second).UTC())
		}
	}
	second(out.StartTime)

	for _, list := range [][]v1.ContainerStatus{out.InitContainerStatuses, out.ContainerStatuses, out.EphemeralContainerStatuses} {
		for i := range list {
			for _, s := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if s.Running != nil {
					second(&s.Running.StartedAt)
				}
				if s.Terminated != nil {
					second(&s.Terminated.StartedAt)
					second(&s.Terminated.FinishedAt)
				}
			}
		}
	}
	return out
}

func sortedTypes(m map[v1.PodConditionType]v1.PodCondition) []v1.PodConditionType {
	var out []v1.PodConditionType
	for t := range m {
		i := 0
		for i < len(out) && out[i] < t {
			i++
		}
		out = append(out[:i], append([]v1.PodConditionType{t}, out[i:]...)...)
	}
	return out
}

// newer compares resource versions; what cannot be read counts as newer.
func newer(a, b *v1.Pod) bool {
	if b == nil {
		return true
	}
	x, err1 := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, err2 := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return err1 != nil || err2 != nil || x > y
}
