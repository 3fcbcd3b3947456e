package runtimetest

import (
	"context"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// heard collects the events about one pod, as "STARTED container" lines.
type heard struct {
	c     *check
	uid   string
	names map[string]string
	next  chan *cri.ContainerEventResponse
}

// listen subscribes to events until the end of the test or until stop is called.
func (c *check) listen(uid string) (h *heard, stop func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	stream, err := c.runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	c.must(err)
	h = &heard{c: c, uid: uid, names: map[string]string{}, next: make(chan *cri.ContainerEventResponse, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case h.next <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	stop = func() { cancel(); <-done }
	c.t.Cleanup(stop)
	return h, stop
}

// one waits for the next event about something that has a name.
func (h *heard) one(want string) (string, *cri.ContainerEventResponse) {
	h.c.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-h.next:
			if name := h.names[e.ContainerId]; name != "" {
				return strings.TrimSuffix(strings.TrimPrefix(e.ContainerEventType.String(), "CONTAINER_"), "_EVENT") +
					" " + name, e
			}
		case <-deadline:
			h.c.t.Fatalf("no event %s", want)
		}
	}
}

// expect waits for exactly these events and returns the last one.
func (h *heard) expect(want ...string) (last *cri.ContainerEventResponse) {
	h.c.t.Helper()
	for _, w := range want {
		var got string
		if got, last = h.one(w); got != w {
			h.c.t.Errorf("event %s, want %s", got, w)
		}
	}
	return last
}

// seek waits for an event, whatever comes before it.
func (h *heard) seek(want string) {
	h.c.t.Helper()
	for got := ""; got != want; {
		got, _ = h.one(want)
	}
}

// events checks which events a pod's life sends, in which order, and what each says of the pod: the kubelet takes the
// state from the event and reads it again only in full checks.
func events(c *check) {
	cfg := c.box("a")
	h, _ := c.listen(cfg.Metadata.Uid)
	box := c.sandbox(cfg)
	h.names[box] = "sandbox"
	// The event of a sandbox has the sandbox's status and no containers.
	if e := h.expect("CREATED sandbox", "STARTED sandbox"); e.PodSandboxStatus.GetMetadata().GetUid() != h.uid ||
		len(e.ContainersStatuses) != 0 {
		c.t.Errorf("the sandbox's event: %+v", e)
	}

	id := c.create(c.creation(box, cfg, "sleep"))
	h.names[id] = "app"
	c.start(id)
	if e := h.expect("CREATED app", "STARTED app"); len(e.ContainersStatuses) != 1 ||
		e.ContainersStatuses[0].State != cri.ContainerState_CONTAINER_RUNNING {
		c.t.Errorf("the event of a start: %+v", e)
	}
	c.stop(id, 10)
	if e := h.expect("STOPPED app"); len(e.ContainersStatuses) != 1 ||
		e.ContainersStatuses[0].State != cri.ContainerState_CONTAINER_EXITED ||
		e.PodSandboxStatus.GetState() != cri.PodSandboxState_SANDBOX_READY {
		c.t.Errorf("the event of an end: %+v", e)
	}
	_, err := c.runtime.RemoveContainer(c.ctx, &cri.RemoveContainerRequest{ContainerId: id})
	c.must(err)
	if e := h.expect("DELETED app"); len(e.ContainersStatuses) != 0 || e.PodSandboxStatus.GetId() != box {
		c.t.Errorf("the event of a removal: %+v", e)
	}

	// The sandbox ends with an event of its own, though its containers are gone.
	_, err = c.runtime.StopPodSandbox(c.ctx, &cri.StopPodSandboxRequest{PodSandboxId: box})
	c.must(err)
	if e := h.expect("STOPPED sandbox"); e.PodSandboxStatus.GetState() != cri.PodSandboxState_SANDBOX_NOTREADY {
		c.t.Errorf("the event of a sandbox's end: %+v", e)
	}
	_, err = c.runtime.RemovePodSandbox(c.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: box})
	c.must(err)
	h.expect("DELETED sandbox")
}

// unsentEvents: what happens while nobody listens is delivered later or lost. containerd keeps it for the next
// subscriber, but only once it has noticed that the last one went away, and it notices that by an event that it could
// not send. A new subscriber learns of what happens from then on.
func unsentEvents(c *check) {
	cfg := c.box("a")
	h, stop := c.listen(cfg.Metadata.Uid)
	box := c.sandbox(cfg)
	h.names[box] = "sandbox"
	h.expect("CREATED sandbox", "STARTED sandbox")
	stop()

	run := func(attempt uint32) (id string) {
		r := c.creation(box, cfg, "sleep")
		r.Config.Metadata.Attempt = attempt
		id = c.start(c.create(r))
		c.stop(id, 10)
		return id
	}
	run(0)
	h, _ = c.listen(cfg.Metadata.Uid)

	// The end of an earlier container may still go to the subscriber that went away. That of the last one cannot.
	run(1)
	id := run(2)
	h.names[id] = "app"
	_, err := c.runtime.RemoveContainer(c.ctx, &cri.RemoveContainerRequest{ContainerId: id})
	c.must(err)
	h.seek("DELETED app")
}
