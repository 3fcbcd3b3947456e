// Package status writes pod statuses to the API. Each pod has one slot with its newest status. A few senders send what
// is in the slots as strategic merge patches, without reading the pod first. A pod is deleted after its last patch.
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

// client writes pods; internal/kube implements it.
type client interface {
	PatchPodStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.Pod, error)
	DeletePod(ctx context.Context, namespace, name string, uid types.UID) error
}

const (
	// A change that is not urgent is held back for settle, so that later ones join it: most pods are Ready by then,
	// and one request instead of three leaves the processors to the start of pods. Each other pod whose change is held
	// back adds settleEach, since many pods that start at once take longer; settleMost is the limit, which 150 pods
	// reach.
	settle     = 500 * time.Millisecond
	settleEach = 200 * time.Millisecond
	settleMost = 30 * time.Second

	// foreign is how soon a status is corrected that another client has changed.
	foreign = 10 * time.Second

	// Back-off of failed requests.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second

	// senders is how many requests are under way at the same time.
	senders = 12
)

// Writer holds the slots. It is safe for concurrent use.
type Writer struct {
	client client
	// written is told how long it took until the API had a status, from its first change on; nil for nobody.
	written func(time.Duration)

	mu    sync.Mutex
	slots map[types.UID]*slot
	work  chan types.UID
	// settling is how many slots hold a change back.
	settling int
}

// slot is one pod; its fields are guarded by Writer.mu.
type slot struct {
	base    *v1.Pod // newest version known to be in the API
	want    v1.PodStatus
	fresh   bool // want was set at least once
	delete  bool
	deleted bool // the deletion was sent; it is not repeated
	queued  bool // its UID is in the channel of work
	busy    bool // a request is under way
	again   bool // it changed while it was busy
	dropped bool // the API has no such pod any more
	// changed is when want began to differ from what the API has; zero if it does not.
	changed time.Time
	// since is when a change began to be held back; zero if none is. The newest status is sent when the wait ends.
	since time.Time
	retry time.Duration
	// answer is base as long as it is what the API answered to sent. An older API server leaves out fields that it
	// does not know: sending them again would change nothing.
	answer *v1.Pod
	sent   v1.PodStatus
}

// written reports whether the API has what is wanted, as far as it can keep it.
func (s *slot) written() bool {
	merged := Merge(s.base.Status, s.want)
	return same(s.base.Status, merged) || s.base == s.answer && same(s.sent, merged)
}

// answered takes the API's answer to a patch that was to make sent of the status.
func (s *slot) answered(after *v1.Pod, sent v1.PodStatus) {
	if newer(after, s.base) {
		s.base = after
	}
	if after.ResourceVersion == s.base.ResourceVersion {
		s.answer, s.sent = s.base, sent
	}
}

// New returns a Writer. It sends nothing until Run. written is told how long it took until the API had a status; it
// may be nil.
func New(c client, written func(time.Duration)) *Writer {
	return &Writer{client: c, written: written, slots: map[types.UID]*slot{}, work: make(chan types.UID, 4096)}
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

// Observe takes a version of a pod that a watch delivered.
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
		w.later(p.UID, s, foreign) // another client changed it: do not fight about it
	}
}

// Set puts a status into the pod's slot. An urgent one is sent at once. With del the pod is deleted after it was
// written.
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

	// while a patch is under way base is out of date: then the next pass compares
	if !s.busy && s.written() && (!s.delete || s.deleted) {
		return
	}
	if s.changed.IsZero() {
		s.changed = time.Now()
	}
	if urgent || del || s.busy {
		w.later(p.UID, s, 0)
		return
	}
	w.settle(p.UID, s)
}

// settle queues a slot after a wait in which other changes can join; the caller holds the lock.
func (w *Writer) settle(uid types.UID, s *slot) {
	if !s.since.IsZero() || s.queued {
		return
	}
	s.since = time.Now()
	w.settling++
	w.hold(uid, s, s.since, w.holdTime())
}

// holdTime returns how long a change is held back, by the number of those that are; the caller holds the lock.
func (w *Writer) holdTime() time.Duration {
	return min(settle+time.Duration(w.settling-1)*settleEach, settleMost)
}

// hold queues a slot after wait. If more changes are held back by then, it waits longer.
func (w *Writer) hold(uid types.UID, s *slot, since time.Time, wait time.Duration) {
	time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.since != since { // it was sent meanwhile, with an urgent change
			return
		}
		if more := time.Until(since.Add(w.holdTime())); more > 0 && w.slots[uid] == s {
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

// Ended reports whether the API has the status of each pod that has ended. It knows of those whose status was set.
func (w *Writer) Ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.slots {
		ended := s.fresh && (s.want.Phase == v1.PodFailed || s.want.Phase == v1.PodSucceeded)
		if ended && !s.dropped && (s.delete && !s.deleted || !s.written()) {
			return false
		}
	}
	return true
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

// send writes the newest status of one pod, and then deletes the pod if that was asked for. Only one send per pod
// works at a time: the lock is not held during the requests, and a change that comes meanwhile sets again, which leads
// to another send.
func (w *Writer) send(ctx context.Context, uid types.UID) {
	w.mu.Lock()
	s := w.slots[uid]
	if s == nil || s.busy {
		w.mu.Unlock()
		return
	}
	s.queued = false
	s.busy = true
	s.again = false
	w.settled(s)
	base := s.base
	want := s.want
	del := s.delete && !s.deleted
	written := s.written()
	w.mu.Unlock()

	var after *v1.Pod
	var err error
	if !written {
		after, err = w.guarded(ctx, base, want)
	}
	if err == nil && del {
		err = w.client.DeletePod(ctx, base.Namespace, base.Name, uid)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	s.busy = false
	if after != nil {
		s.answered(after, Merge(base.Status, want))
	}

	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the pod is gone, or another one has its name
		s.deleted, s.dropped = s.deleted || del, true
		return
	case err != nil && ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, "Writing pod status failed", "pod", klog.KObj(base))
		s.retry = min(max(2*s.retry, firstRetry), lastRetry)
		w.later(uid, s, s.retry)
		return
	}

	s.retry = 0
	s.deleted = s.deleted || del
	if w.written != nil && after != nil && !s.changed.IsZero() && s.written() {
		w.written(time.Since(s.changed))
	}
	if s.written() {
		s.changed = time.Time{}
	}
	if s.again || s.delete && !s.deleted {
		w.later(uid, s, 0)
	}
}

// guarded is write. A panic in it is an error of this pod only.
func (w *Writer) guarded(ctx context.Context, base *v1.Pod, want v1.PodStatus) (after *v1.Pod, err error) {
	defer func() {
		if r := recover(); r != nil {
			after = nil
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	return w.write(ctx, base, want)
}

// write patches the status if it differs. It returns the pod as the API has it then, or nil if nothing was written.
func (w *Writer) write(ctx context.Context, base *v1.Pod, want v1.PodStatus) (*v1.Pod, error) {
	merged := Merge(base.Status, want)
	if same(base.Status, merged) {
		return nil, nil
	}
	patch, err := Patch(base, merged)
	if err != nil {
		return nil, err
	}
	after, err := w.client.PatchPodStatus(ctx, base.Namespace, base.Name, patch)
	if err != nil { // client-go gives an empty pod with it, which is no version of this one
		return nil, err
	}
	return after, nil
}

// Patch returns the strategic merge patch that turns the status of base into want. The patch has the UID, so that it
// cannot change another pod of the same name.
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

// owned are the conditions that the kubelet sets.
var owned = map[v1.PodConditionType]bool{v1.PodReadyToStartContainers: true, v1.PodInitialized: true, v1.PodReady: true,
	v1.ContainersReady: true, v1.PodScheduled: true, v1.PodResizePending: true, v1.PodResizeInProgress: true,
	v1.AllContainersRestarting: true}

// Merge returns want with what the API has beside it: conditions that others set are kept, and a terminal phase does
// not change.
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
	for _, c := range want.Conditions { // the kubelet may add others, such as DisruptionTarget, but not change them
		if !have[c.Type] {
			out.Conditions = append(out.Conditions, c)
		}
	}

	if base.Phase == v1.PodFailed || base.Phase == v1.PodSucceeded {
		out.Phase = base.Phase
	}
	out.QOSClass = base.QOSClass
	out.NominatedNodeName = base.NominatedNodeName
	out.ResourceClaimStatuses = base.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = base.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = base.NodeAllocatableResourceClaimStatuses
	out.ObservedGeneration = max(base.ObservedGeneration, want.ObservedGeneration)
	return out
}

// same reports whether two statuses are equal as the API stores them: the order of conditions and fractions of seconds
// do not count.
func same(a, b v1.PodStatus) bool {
	return equality.Semantic.DeepEqual(normalize(a), normalize(b))
}

// normalize returns a copy of st as the API server would give it back: times in UTC and whole seconds, conditions in
// the order of their types.
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

	for _, list := range [][]v1.ContainerStatus{out.InitContainerStatuses, out.ContainerStatuses,
		out.EphemeralContainerStatuses} {
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

// newer reports whether the resource version of a is higher than that of b. A version that is not a number counts as
// higher.
func newer(a, b *v1.Pod) bool {
	if b == nil {
		return true
	}
	x, err1 := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, err2 := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return err1 != nil || err2 != nil || x > y
}
