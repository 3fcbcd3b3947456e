package kubelet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/static"
)

// StaticSource gives pods that do not come from the API; package static has two.
type StaticSource interface {
	// Run calls deliver with all its pods at once, and again when they have changed, until ctx ends.
	Run(ctx context.Context, deliver func([]*v1.Pod), refused func(place string, err error))
}

// statics keeps the static pods, who of those of one name may run, and their mirrors in the API. A static pod keeps its
// own UID everywhere on the node; only here and in the writer of statuses the mirror's UID is known.
//
//	wanted   mirror               what happens
//	yes      none                 create it
//	yes      of other content     delete it, then create it
//	yes      being deleted        delete it for good, then create it
//	no       any                  delete it, once the pod has ended
type statics struct {
	mu        sync.Mutex
	bySource  [][]*v1.Pod
	delivered map[int]bool
	wanted    map[string]*v1.Pod     // by full name
	mirrors   map[string]*v1.Pod     // by full name, as the API has them
	lines     map[string][]types.UID // by full name, in order of arrival: the first may run, the others wait for its end
	ready     chan struct{}          // closed when every source has delivered once
	changed   chan struct{}          // one slot: the mirrors may want work
}

func newStatics(sources int) *statics {
	s := &statics{bySource: make([][]*v1.Pod, sources), delivered: map[int]bool{}, wanted: map[string]*v1.Pod{},
		mirrors: map[string]*v1.Pod{}, lines: map[string][]types.UID{}, ready: make(chan struct{}), changed: make(chan struct{}, 1)}
	if sources == 0 {
		close(s.ready)
	}
	return s
}

func fullName(namespace, name string) string { return namespace + "/" + name }

func (s *statics) kick() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// deliver takes all pods of one source and tells which are new or different, which are no longer wanted, and which have
// the name of another.
func (s *statics) deliver(source int, pods []*v1.Pod) (changed, gone, doubles []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bySource[source] = pods
	wanted := map[string]*v1.Pod{}
	for _, list := range s.bySource {
		for _, p := range list {
			name := fullName(p.Namespace, p.Name)
			if wanted[name] != nil {
				doubles = append(doubles, p)
				continue
			}
			wanted[name] = p
		}
	}
	for name, p := range wanted {
		if old := s.wanted[name]; old != p {
			changed = append(changed, p)
			if !slices.Contains(s.lines[name], p.UID) {
				s.lines[name] = append(s.lines[name], p.UID)
			}
		}
	}
	for name, old := range s.wanted {
		if p := wanted[name]; p == nil || p.UID != old.UID {
			gone = append(gone, old)
		}
	}
	s.wanted = wanted
	if !s.delivered[source] {
		s.delivered[source] = true
		if len(s.delivered) == len(s.bySource) {
			close(s.ready)
		}
	}
	s.kick()
	return changed, gone, doubles
}

// occupied notes that the runtime has a pod of that name: a static pod of the same name waits for its end.
func (s *statics) occupied(name string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := s.lines[name]; !slices.Contains(line, uid) {
		s.lines[name] = append([]types.UID{uid}, line...)
	}
}

// predecessors are the pods in the runtime that have the names of wanted static pods and are not these. The UID of a static
// pod is a hash without dashes: others may be pods of the API.
func (s *statics) predecessors() (out []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.wanted {
		for _, uid := range s.lines[name] {
			if uid != p.UID && !strings.Contains(string(uid), "-") {
				out = append(out, uid)
			}
		}
	}
	return out
}

// mayStart tells whether no earlier pod of that name is left.
func (s *statics) mayStart(p *v1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[fullName(p.Namespace, p.Name)]
	return len(line) == 0 || line[0] == p.UID
}

// finished takes a pod out of its line. It returns who is next, and the pod itself if it is wanted again.
func (s *statics) finished(uid types.UID) (next types.UID, again *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, line := range s.lines {
		i := slices.Index(line, uid)
		if i < 0 {
			continue
		}
		line = slices.Delete(slices.Clone(line), i, i+1)
		if p := s.wanted[name]; p != nil && p.UID == uid {
			again, line = p, append(line, uid)
		}
		s.lines[name] = line
		if len(line) == 0 {
			delete(s.lines, name)
		} else {
			next = line[0]
		}
	}
	s.kick()
	return next, again
}

// setMirror takes what the API has; nil means that it is gone, if it was the one with that UID.
func (s *statics) setMirror(name string, uid types.UID, p *v1.Pod) (owner types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != nil {
		s.mirrors[name] = p
	} else if old := s.mirrors[name]; old != nil && old.UID == uid {
		delete(s.mirrors, name)
	}
	s.kick()
	if p == nil {
		return ""
	}
	return types.UID(p.Annotations[static.MirrorAnnotation])
}

// mirrorOf is the mirror of a static pod, or nil.
func (s *statics) mirrorOf(p *v1.Pod) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mirrors[fullName(p.Namespace, p.Name)]
	if m == nil || m.Annotations[static.MirrorAnnotation] != string(p.UID) {
		return nil
	}
	return m
}

// plan says which mirrors to make and which to delete.
func (s *statics) plan() (create, remove []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.wanted {
		m := s.mirrors[name]
		switch {
		case m == nil:
			create = append(create, p)
		case m.DeletionTimestamp != nil || m.Annotations[static.MirrorAnnotation] != p.Annotations[static.HashAnnotation]:
			remove = append(remove, m)
		}
	}
	for name, m := range s.mirrors {
		if s.wanted[name] == nil && len(s.lines[name]) == 0 {
			remove = append(remove, m)
		}
	}
	return create, remove
}

// runStatic starts the sources. Their pods need no API server.
func (k *Kubelet) runStatic(ctx context.Context) {
	for i, source := range k.o.Static {
		k.running.Go(func() {
			deliver := contained(ctx, "taking in static pods", func(pods []*v1.Pod) { k.staticPods(i, pods) })
			source.Run(ctx, deliver, func(place string, err error) {
				klog.FromContext(ctx).Error(err, "A manifest holds no pod that can run", "file", place)
				k.o.API.NodeEvent(v1.EventTypeWarning, "FailedValidation", fmt.Sprintf("Error validating pod from %s: %v", place, err))
			})
		})
	}
}

func (k *Kubelet) staticPods(source int, pods []*v1.Pod) {
	changed, gone, doubles := k.statics.deliver(source, pods)
	for _, p := range doubles {
		k.o.API.PodEvent(p, "", v1.EventTypeWarning, "FailedValidation",
			fmt.Sprintf("Error validating pod %s/%s from %s due to duplicate pod name, ignoring", p.Namespace, p.Name, p.Annotations[static.SourceAnnotation]))
	}
	for _, p := range gone {
		if a := k.actor(p.UID, false); a != nil {
			a.post(func(s *pod.State) { s.Gone = true })
		}
	}
	for _, p := range changed {
		k.wantStatic(p)
	}
	k.endPredecessors()
}

// endPredecessors ends what the runtime has of static pods that were changed or removed while no kubelet ran. They need not
// wait for the API server: it may be one of those that wait for them.
func (k *Kubelet) endPredecessors() {
	for _, uid := range k.statics.predecessors() {
		if a := k.actor(uid, false); a != nil {
			a.post(func(*pod.State) { a.sourcesReady = true })
		}
	}
}

// wantStatic tells the actor of a static pod what it should run. One that is ending ends first; its successor is made
// when it has.
func (k *Kubelet) wantStatic(p *v1.Pod) {
	k.actor(p.UID, true).post(func(s *pod.State) {
		if s.Pod != nil && s.Gone {
			return
		}
		s.Pod, s.Static = p, true
	})
}

// staticFinished lets the next pod of the same name begin.
func (k *Kubelet) staticFinished(uid types.UID) {
	next, again := k.statics.finished(uid)
	if again != nil {
		k.wantStatic(again)
	}
	if a := k.actor(next, false); a != nil && next != "" {
		a.wake()
	}
}

// mirrorChanged takes a mirror from the API: its status is written from now on.
func (k *Kubelet) mirrorChanged(p *v1.Pod) {
	k.status.Observe(p)
	owner := k.statics.setMirror(fullName(p.Namespace, p.Name), p.UID, p)
	if a := k.actor(owner, false); a != nil {
		a.wake()
	}
}

func (k *Kubelet) mirrorGone(p *v1.Pod) {
	k.status.Forget(p.UID)
	k.statics.setMirror(fullName(p.Namespace, p.Name), p.UID, nil)
}

// Waits between tries to write mirrors.
const (
	mirrorRetry     = time.Second
	mirrorLastRetry = time.Minute
)

// runMirrors keeps the mirrors right until ctx ends. It begins when all sources have delivered, so that it removes
// none that is still wanted.
func (k *Kubelet) runMirrors(ctx context.Context) {
	select {
	case <-k.statics.ready:
	case <-ctx.Done():
		return
	}
	asked := map[types.UID]bool{} // mirrors whose deletion was sent and not yet seen
	wait := mirrorRetry
	for {
		create, remove := k.statics.plan()
		var failed error
		sent := map[types.UID]bool{}
		for _, m := range remove {
			if !asked[m.UID] {
				err := k.o.API.DeletePod(ctx, m.Namespace, m.Name, m.UID)
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					failed = errors.Join(failed, fmt.Errorf("deleting the mirror of pod %s: %w", m.Name, err))
					continue
				}
			}
			sent[m.UID] = true
		}
		asked = sent
		for _, p := range create {
			failed = errors.Join(failed, k.createMirror(ctx, p))
		}
		var retry <-chan time.Time
		if failed != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(failed, "Mirroring static pods failed", "retry", wait)
			retry, wait = time.After(wait), min(2*wait, mirrorLastRetry)
		} else {
			wait = mirrorRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-k.statics.changed:
		case <-retry:
		}
	}
}

func (k *Kubelet) createMirror(ctx context.Context, p *v1.Pod) error {
	n := k.node.Object()
	if n == nil || n.UID == "" {
		return fmt.Errorf("creating the mirror of pod %s: the node has not registered", p.Name)
	}
	made, err := k.o.API.CreatePod(ctx, mirror(p, n))
	if apierrors.IsAlreadyExists(err) { // the watch brings it, and then it is compared
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating the mirror of pod %s: %w", p.Name, err)
	}
	k.mirrorChanged(made)
	return nil
}

// mirror is the shadow of a static pod as it is put into the API: NodeRestriction wants the owner, and the hash tells
// whether it still shows the pod of now.
func mirror(p *v1.Pod, n *v1.Node) *v1.Pod {
	m := p.DeepCopy()
	m.UID = ""
	m.Annotations[static.MirrorAnnotation] = m.Annotations[static.HashAnnotation]
	yes := true
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID, Controller: &yes}}
	return m
}

// publishMirror hands on the status of a static pod: the mirror gets it, if there is one.
func (a *actor) publishMirror(plan *pod.Plan) {
	s := &a.state
	m := a.k.statics.mirrorOf(s.Pod)
	if m == nil || m.DeletionTimestamp != nil {
		return
	}
	if a.mirror == m.UID && s.Last != nil && reflect.DeepEqual(*s.Last, plan.Status) {
		return
	}
	urgent := s.Last == nil || s.Last.Phase != plan.Status.Phase || isReady(s.Last) != isReady(&plan.Status)
	a.mirror = m.UID
	a.k.status.Set(m, plan.Status, false, urgent)
}
