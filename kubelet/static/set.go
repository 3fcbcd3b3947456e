package static

import (
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/wakeup"
)

// Set keeps the static pods: what each source has, which of several pods of one name may run, and their mirrors in the
// API. A static pod keeps its own UID everywhere on the node; only a Set and the writer of statuses know the mirror's
// UID.
//
//	wanted   mirror               what happens
//	yes      none                 create it
//	yes      of other content     delete it once the pod that it shows has ended, then create it
//	yes      being deleted        delete it for good, then create it
//	yes      of an ended instance delete it, then create it
//	no       any                  delete it, once the pod has ended
//
// A Set only decides; it is safe for concurrent use.
type Set struct {
	// Changed wakes the loop that carries out Plan.
	Changed wakeup.Signal

	mu        sync.Mutex
	bySource  [][]*v1.Pod
	delivered map[int]bool
	wanted    map[string]*v1.Pod // by full name
	mirrors   map[string]*v1.Pod // by full name, as the API has them
	// mirrors that show an instance that has ended, of a pod that starts anew; by full name
	stale map[string]types.UID
	// by full name, in order of arrival: the first may run, the others wait for its end
	queues map[string][]types.UID
	ready  chan struct{}
}

// NewSet returns a Set for that number of sources, none of which has delivered yet.
func NewSet(sources int) *Set {
	s := &Set{Changed: wakeup.New(), bySource: make([][]*v1.Pod, sources), delivered: map[int]bool{},
		wanted:  map[string]*v1.Pod{},
		mirrors: map[string]*v1.Pod{}, stale: map[string]types.UID{}, queues: map[string][]types.UID{},
		ready: make(chan struct{})}
	if sources == 0 {
		close(s.ready)
	}
	return s
}

// Ready returns a channel that is closed once every source has delivered.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// FullName returns the name that a static pod and its mirror share.
func FullName(namespace, name string) string { return namespace + "/" + name }

// Deliver takes all pods of one source. It returns those that are new or different, those that are no longer wanted,
// and those that have the name of another.
func (s *Set) Deliver(source int, pods []*v1.Pod) (changed, gone, doubles []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bySource[source] = pods
	wanted := map[string]*v1.Pod{}
	for _, list := range s.bySource {
		for _, p := range list {
			name := FullName(p.Namespace, p.Name)
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
			if !slices.Contains(s.queues[name], p.UID) {
				s.queues[name] = append(s.queues[name], p.UID)
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

	s.Changed.Wake()
	return changed, gone, doubles
}

// Occupied notes that the runtime has a pod of that name: a static pod of the same name waits for its end.
func (s *Set) Occupied(name string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if queue := s.queues[name]; !slices.Contains(queue, uid) {
		s.queues[name] = append([]types.UID{uid}, queue...)
	}
}

// Predecessors returns the pods in the runtime that have the name of a wanted static pod but another UID. The UID of a
// static pod is a hash without dashes: others may be pods of the API.
func (s *Set) Predecessors() (out []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.wanted {
		for _, uid := range s.queues[name] {
			if uid != p.UID && !strings.Contains(string(uid), "-") {
				out = append(out, uid)
			}
		}
	}
	return out
}

// MayStart reports whether no earlier pod of that name is left.
func (s *Set) MayStart(p *v1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queues[FullName(p.Namespace, p.Name)]
	return len(queue) == 0 || queue[0] == p.UID
}

// Finished takes a pod that has ended out of its queue. It returns the UID of the next one, and the pod itself if it
// is wanted again.
func (s *Set) Finished(uid types.UID) (next types.UID, again *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, queue := range s.queues {
		i := slices.Index(queue, uid)
		if i < 0 {
			continue
		}
		queue = slices.Delete(slices.Clone(queue), i, i+1)
		if p := s.wanted[name]; p != nil && p.UID == uid {
			again, queue = p, append(queue, uid)
			if m := s.mirrors[name]; m != nil {
				s.stale[name] = m.UID
			}
		}
		s.queues[name] = queue
		if len(queue) == 0 {
			delete(s.queues, name)
		} else {
			next = queue[0]
		}
	}
	s.Changed.Wake()
	return next, again
}

// SetMirror takes a mirror as the API has it; nil for p means that the one with that UID is gone. It returns the UID
// of the static pod that the mirror belongs to, empty if it is gone.
func (s *Set) SetMirror(name string, uid types.UID, p *v1.Pod) (owner types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != nil {
		s.mirrors[name] = p
	} else if old := s.mirrors[name]; old != nil && old.UID == uid {
		delete(s.mirrors, name)
	}
	if p == nil && s.stale[name] == uid {
		delete(s.stale, name)
	}
	s.Changed.Wake()
	if p == nil {
		return ""
	}
	return types.UID(p.Annotations[MirrorAnnotation])
}

// MirrorOf returns the mirror of a static pod, or nil if the API has none of this version and instance of it.
func (s *Set) MirrorOf(p *v1.Pod) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := FullName(p.Namespace, p.Name)
	m := s.mirrors[name]
	if m == nil || m.UID == s.stale[name] || m.Annotations[MirrorAnnotation] != string(p.UID) {
		return nil
	}
	return m
}

// Plan returns the static pods that need a mirror, and the mirrors to delete.
func (s *Set) Plan() (create, remove []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.wanted {
		m := s.mirrors[name]
		switch {
		case m == nil:
			create = append(create, p)
		case m.DeletionTimestamp != nil || m.UID == s.stale[name] ||
			m.Annotations[MirrorAnnotation] != p.Annotations[HashAnnotation] && !s.ending(name, m):
			remove = append(remove, m)
		}
	}
	for name, m := range s.mirrors {
		if s.wanted[name] == nil && len(s.queues[name]) == 0 {
			remove = append(remove, m)
		}
	}
	return create, remove
}

// ending reports whether a mirror shows an earlier pod that has not ended yet. s.mu is held.
func (s *Set) ending(name string, mirror *v1.Pod) bool {
	return slices.Contains(s.queues[name], types.UID(mirror.Annotations[MirrorAnnotation]))
}

// Mirror returns the pod by which the API shows a static pod. The NodeRestriction plugin requires the owner; by the
// hash a mirror of an older version is recognised.
func Mirror(p *v1.Pod, n *v1.Node) *v1.Pod {
	m := p.DeepCopy()
	m.UID = ""
	m.Annotations[MirrorAnnotation] = m.Annotations[HashAnnotation]
	yes := true
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID,
		Controller: &yes}}
	return m
}
