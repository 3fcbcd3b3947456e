package service

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// maxTriggered bounds the trigger times that are kept for one service until Take.
const maxTriggered = 100

// intern returns one copy of texts that many objects share.
func intern(s string) string { return unique.Make(s).Value() }

// Tracker keeps what a proxy needs to know of services and slices, and which services changed. It is safe for
// concurrent use. Objects given to it are not kept and not changed.
type Tracker struct {
	mu      sync.Mutex
	node    Node
	options Options
	entries map[string]*entry // by namespace/name of the service
	slices  map[string]*entry // by namespace/name of the slice
	index   index
	touched []*entry
}

// entry is one service, its slices, or both.
type entry struct {
	name      string
	service   *wanted  // nil if there is none to serve
	slices    []*slice // by name
	triggered []time.Time
	// touched: it is in Tracker.touched; reported: its last State was not empty.
	touched, reported bool
}

// NewTracker returns a Tracker without objects. The node's name cannot change later.
func NewTracker(node Node) *Tracker {
	node.Name = strings.ToLower(node.Name) // as the API requires it; a Windows host name may come in capitals
	return &Tracker{node: node, entries: map[string]*entry{}, slices: map[string]*entry{}, index: newIndex()}
}

// SetOptions replaces the options.
func (t *Tracker) SetOptions(o Options) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.options.SourceRanges != o.SourceRanges {
		t.touchAll()
	}
	t.options = o
}

// SetNode sets the node's zone; the name in it does not count.
func (t *Tracker) SetNode(node Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.node.Zone != node.Zone {
		t.node.Zone = node.Zone
		t.touchAll()
	}
}

// SetService adds or replaces a service.
func (t *Tracker) SetService(s *corev1.Service) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putService(s.Namespace+"/"+s.Name, compactService(s))
}

// ServiceNames returns namespace/name of all services that are served.
func (t *Tracker) ServiceNames() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, e := range t.entries {
		if e.service != nil {
			names = append(names, name)
		}
	}
	return names
}

// SliceNames returns namespace/name of all slices that services use.
func (t *Tracker) SliceNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.slices))
}

// RemoveService forgets a service. Its slices stay until they are removed.
func (t *Tracker) RemoveService(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putService(namespace+"/"+name, nil)
}

// putService replaces a service; a nil w removes it. Besides its own entry it marks as changed the services that gain
// or lose a frontend to it. It does nothing if the part of the service that matters is the same. The caller holds the
// lock.
func (t *Tracker) putService(name string, w *wanted) {
	e := t.entries[name]
	if e == nil {
		if w == nil {
			return
		}
		e = t.add(name)
	}
	if e.service.equal(w) {
		return
	}
	old := e.service
	e.service = w
	t.touch(e)
	for _, other := range t.index.replace(e, old, w) {
		t.touch(other)
	}
}

// SetSlice adds or replaces a slice, which may belong to another service than before.
func (t *Tracker) SetSlice(s *discoveryv1.EndpointSlice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := s.Namespace + "/" + s.Name
	next := compactSlice(s, t.node.Name)
	if next == nil {
		t.dropSlice(key, s.Name)
		return
	}

	next.name = key[len(s.Namespace)+1:] // shares the key's memory
	owner := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
	if old := t.slices[key]; old != nil && old.name != owner {
		t.dropSlice(key, s.Name)
	}
	e := t.entries[owner]
	if e == nil {
		e = t.add(owner)
	}

	i, found := e.find(next.name)
	switch {
	case !found:
		e.slices = slices.Insert(e.slices, i, next)
		t.slices[key] = e
	case e.slices[i].equal(next):
		return
	default:
		e.slices[i] = next
	}
	t.touch(e)

	at, err := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err == nil && at.After(t.options.Since) && len(e.triggered) < maxTriggered {
		e.triggered = append(e.triggered, at)
	}
}

// RemoveSlice forgets a slice.
func (t *Tracker) RemoveSlice(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropSlice(namespace+"/"+name, name)
}

func (t *Tracker) dropSlice(key, name string) {
	e := t.slices[key]
	if e == nil {
		return
	}
	delete(t.slices, key)
	if i, found := e.find(name); found {
		e.slices = slices.Delete(e.slices, i, i+1)
	}
	e.triggered = nil // the remaining slices' times are of earlier changes; upstream drops them too
	t.touch(e)
}

func (e *entry) find(name string) (int, bool) {
	return slices.BinarySearchFunc(e.slices, name, func(s *slice, n string) int { return strings.Compare(s.name, n) })
}

func (t *Tracker) add(name string) *entry {
	e := &entry{name: name}
	t.entries[name] = e
	return e
}

func (t *Tracker) touch(e *entry) {
	if !e.touched {
		e.touched = true
		t.touched = append(t.touched, e)
	}
}

func (t *Tracker) touchAll() {
	for _, e := range t.entries {
		if e.service != nil {
			t.touch(e)
		}
	}
}

// Take returns the states of the services that changed since the last Take, by rank and name. A state without
// frontends means that the service is gone, or wants nothing any more. A service that lost or won a frontend because
// another one changed is included.
func (t *Tracker) Take() []State {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]State, 0, len(t.touched))
	for _, e := range t.touched {
		e.touched = false
		s := t.state(e)
		if e.reported || !s.Empty() {
			out = append(out, s)
		}
		e.reported = !s.Empty()
		e.triggered = nil
		if e.service == nil && len(e.slices) == 0 {
			delete(t.entries, e.name)
		}
	}
	t.touched = nil
	slices.SortFunc(out, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Service, b.Service))
	})
	return out
}
