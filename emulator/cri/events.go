package cri

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// GetContainerEvents passes containerd's events on, with statuses in Windows terms. With Profile.LateEnds the end of a container comes
// late.
func (s service) GetContainerEvents(r *runtimeapi.GetEventsRequest, to grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	from, err := s.runtime.GetContainerEvents(to.Context(), r)
	if err != nil {
		return err
	}
	out := &eventSender{to: to, translate: s.windowsEvent}
	defer out.close()

	for {
		event, err := from.Recv()
		if err != nil {
			return err
		}
		if late := s.untilSeen(event); late > 0 {
			time.AfterFunc(late, func() { _ = out.send(event) }) // after an error the stream has ended, and Recv returns it
			continue
		}
		if err := out.send(event); err != nil {
			return err
		}
	}
}

// untilSeen returns how long an event must be delayed: until the end of its container may be seen, or 0 for other events.
func (s *Server) untilSeen(e *runtimeapi.ContainerEventResponse) time.Duration {
	if e.ContainerEventType != runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
		return 0
	}
	for _, c := range e.ContainersStatuses {
		if c.Id == e.ContainerId {
			return stillRuns(s.profile(), c.State, c.StartedAt, time.Now())
		}
	}
	return 0
}

func (s *Server) windowsEvent(e *runtimeapi.ContainerEventResponse) {
	for _, c := range e.ContainersStatuses {
		s.windowsStatus(c)
	}
	windowsSandbox(e.PodSandboxStatus)
}

// eventSender sends to one subscriber. It may be used from several goroutines.
type eventSender struct {
	to interface {
		Send(*runtimeapi.ContainerEventResponse) error
		Context() context.Context
	}
	translate func(*runtimeapi.ContainerEventResponse)

	mu     sync.Mutex
	closed bool
}

func (o *eventSender) send(e *runtimeapi.ContainerEventResponse) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return o.to.Context().Err()
	}
	o.translate(e)
	return o.to.Send(e)
}

func (o *eventSender) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}
