package runtime

import (
	"context"
	"fmt"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// Event is one thing that happened in the runtime.
type Event struct {
	// UID is the pod's; empty if the runtime could not name it.
	UID string
	// Update is the state of the pod after the event; never nil.
	Update *observed.Runtime
	// Removed is the id of a container or sandbox that is gone.
	Removed string
	At      time.Time
}

// Events calls deliver for each event until the stream breaks or ctx ends, and returns the cause. It calls subscribed
// once the stream is open, before any event. deliver must not block: a slow reader stalls the runtime.
func (r *Runtime) Events(ctx context.Context, subscribed func(), deliver func(Event)) error {
	stream, err := r.client.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	if err != nil {
		return fmt.Errorf("subscribing to runtime events: %w", err)
	}
	subscribed()
	for {
		m, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("reading runtime events: %w", err)
		}
		deliver(r.o.toEvent(m))
	}
}

// toEvent translates an event. The pod's UID is looked for in the sandbox's labels, its metadata, and the containers'
// labels, in this order, because an event about a sandbox that is already gone has no sandbox status.
func (o *Options) toEvent(m *cri.ContainerEventResponse) Event {
	e := Event{At: time.Unix(0, m.CreatedAt), Update: &observed.Runtime{}}
	if s := m.PodSandboxStatus; s != nil {
		e.UID = s.Labels[labelPodUID]
		if e.UID == "" {
			e.UID = s.GetMetadata().GetUid()
		}
		e.Update.Sandboxes = append(e.Update.Sandboxes, toSandbox(s))
	}

	for _, c := range m.ContainersStatuses {
		if c == nil {
			continue
		}
		if e.UID == "" {
			e.UID = c.Labels[labelPodUID]
		}
		full := o.toContainer(c)
		if s := m.PodSandboxStatus; s != nil && full.SandboxID == "" {
			full.SandboxID = s.Id
		}
		e.Update.Containers = append(e.Update.Containers, full)
	}

	e.Update.UID = e.UID
	if m.ContainerEventType == cri.ContainerEventType_CONTAINER_DELETED_EVENT {
		e.Removed = m.ContainerId
	}
	return e
}
