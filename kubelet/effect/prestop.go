package effect

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// PreStop is the preStop hook of one container instance. It runs once, however often the container is told to stop,
// and ends early when the container does. Make it with NewPreStop.
type PreStop struct {
	once      sync.Once
	done      chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc
	container *v1.Container
	podIP     string
	tasks     tasks
	until     time.Time // when the grace period with which it was started is over
}

// tasks runs goroutines that a kubelet which ends waits for; the kubelet has them.
type tasks interface{ Go(f func()) }

// NewPreStop returns the hook of a container, which has not begun. podIP is the pod's address; t runs the hook.
func NewPreStop(ctx context.Context, c *v1.Container, podIP string, t tasks) *PreStop {
	h := &PreStop{done: make(chan struct{}), container: c, podIP: podIP, tasks: t}
	h.ctx, h.cancel = context.WithCancel(ctx)
	return h
}

// Cancel ends the hook: its container has ended.
func (h *PreStop) Cancel() { h.cancel() }

// StartPreStop starts the hook of a container unless it runs already, or has run. When the grace period is over nobody
// waits for it any more, but it goes on for as long as the container, as with upstream.
func (e *Pod) StartPreStop(h *PreStop, p *v1.Pod, id string, grace time.Duration) {
	h.once.Do(func() {
		h.until = time.Now().Add(grace)
		c := h.container
		h.tasks.Go(func() {
			defer close(h.done)
			err := Guarded(h.ctx, e.uid, "preStop hook", func() error {
				return hookCall{c.Lifecycle.PreStop, p, c, id, h.podIP}.run(h.ctx, e)
			})
			if err != nil && h.ctx.Err() == nil {
				e.Event(p, c.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
			}
		})
	})
}
