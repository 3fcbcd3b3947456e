package runtimetest

import (
	"slices"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/wakeup"
)

// eventStream is one subscriber. Its queue has no limit: a slow reader does not delay the fake.
type eventStream struct {
	broken chan struct{}
	more   wakeup.Signal

	mu    sync.Mutex
	queue []*cri.ContainerEventResponse
}

// push never blocks: a stream holds whatever nobody has read.
func (s *eventStream) push(e *cri.ContainerEventResponse) {
	s.mu.Lock()
	s.queue = append(s.queue, e)
	s.mu.Unlock()
	s.more.Wake()
}

// pop returns the oldest event, or nil.
func (s *eventStream) pop() *cri.ContainerEventResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	e := s.queue[0]
	s.queue = s.queue[1:]
	return e
}

// keepsUnsent is how long containerd keeps events without a subscriber (2.3: internal/cri/server/service.go).
const keepsUnsent = 5 * time.Minute

// subscribe adds a subscriber. It first gets the events that were kept.
func (f *Fake) subscribe() *eventStream {
	s := &eventStream{broken: make(chan struct{}), more: wakeup.New()}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.unsent {
		if time.Since(time.Unix(0, e.CreatedAt)) < keepsUnsent {
			s.push(e)
		}
	}
	f.unsent = nil
	f.streams = append(f.streams, s)
	return s
}

// unsubscribe ends a subscription whose client went away. Containerd notices it by the next event, which is lost (seen
// with 2.3.6: its queue of a subscriber has room for 100 events, and only a failing send closes it).
func (f *Fake) unsubscribe(s *eventStream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
	f.streams = slices.DeleteFunc(f.streams, func(other *eventStream) bool { return other == s })
}

// event sends an event about a container, or about the sandbox itself, with the state after it. The caller holds the
// lock.
func (f *Fake) event(id string, s *sandbox, kind cri.ContainerEventType) {
	e := &cri.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: time.Now().UnixNano()}
	if f.sandbox(s.id) != nil {
		e.PodSandboxStatus = s.status()
	}
	for _, c := range f.containers {
		if c.sandbox == s {
			e.ContainersStatuses = append(e.ContainersStatuses, c.status())
		}
	}

	if f.LoseEvent != nil && f.LoseEvent(e) {
		return
	}
	if len(f.streams) == 0 && !f.stale {
		f.unsent = append(f.unsent, e)
	}
	f.stale = false
	for _, stream := range f.streams {
		stream.push(e)
	}
}
