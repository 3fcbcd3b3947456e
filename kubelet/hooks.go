package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
)

// leastStop is what is left for the container itself when its hook used up the grace period.
const leastStop = 2 * time.Second

// preStopRun is the preStop hook of one container instance. It runs once, however often the container is told to stop,
// and ends early when the container does.
type preStopRun struct {
	once   sync.Once
	done   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	podIP  string
}

// hookBefore is the preStop hook of that container, or nil if it has none. Only the actor's goroutine calls it.
func (a *actor) hookBefore(x pod.Action) *preStopRun {
	if a.state.Pod == nil {
		return nil
	}
	c := findContainer(a.state.Pod, x.Name)
	if c == nil || c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return nil
	}
	h := a.preStops[x.ID]
	if h == nil {
		h = &preStopRun{done: make(chan struct{}), podIP: a.podIP()}
		h.ctx, h.cancel = context.WithCancel(a.k.ctx)
		a.preStops[x.ID] = h
	}
	return h
}

// preStop runs the hook inside the grace period, or waits for it if it runs already, and returns what is left of it.
func (a *actor) preStop(h *preStopRun, p *v1.Pod, x pod.Action) time.Duration {
	began := time.Now()
	h.once.Do(func() {
		c := findContainer(p, x.Name)
		a.k.running.Go(func() {
			defer close(h.done)
			err := a.guarded("preStop hook", func() error {
				return a.hook(h.ctx, p, c, hookCall{c.Lifecycle.PreStop, x.ID, h.podIP, x.Grace})
			})
			if err != nil && h.ctx.Err() == nil {
				a.event(p, c.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
			}
		})
	})
	timer := time.NewTimer(x.Grace)
	defer timer.Stop()
	select {
	case <-h.done:
	case <-h.ctx.Done():
	case <-timer.C:
	}
	return max(x.Grace-time.Since(began), leastStop)
}

// endHooks ends the hooks of containers that have ended.
func (a *actor) endHooks() {
	for id, h := range a.preStops {
		if c, ok := a.state.Runtime.Find(id); !ok || c.State == pod.Exited {
			h.cancel()
			delete(a.preStops, id)
		}
	}
	for id, cancel := range a.postStarts {
		if c, ok := a.state.Runtime.Find(id); !ok || c.State == pod.Exited {
			cancel()
			delete(a.postStarts, id)
		}
	}
}

// postStart runs beside the container, which counts as started when the hook is done, and is stopped if it fails. Until
// then nothing else of the pod starts.
func (a *actor) postStart(p *v1.Pod, c *v1.Container, id string) {
	key, podIP := "start/"+c.Name+"/hook", a.podIP()
	a.state.InFlight[key] = time.Time{}
	a.state.PostStart[c.Name] = pod.PostStart{ContainerID: id}
	ctx, cancel := context.WithCancel(a.k.ctx)
	a.postStarts[id] = cancel
	a.k.running.Go(func() {
		err := a.guarded("postStart hook", func() error {
			return a.hook(ctx, p, c, hookCall{c.Lifecycle.PostStart, id, podIP, 0})
		})
		cut := ctx.Err() != nil // the container ended first: then that is what there is to say
		if err != nil && !cut {
			a.event(p, c.Name, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		}
		a.post(func(s *pod.State) {
			cancel()
			delete(s.InFlight, key)
			delete(a.postStarts, id)
			if s.PostStart[c.Name].ContainerID == id {
				s.PostStart[c.Name] = pod.PostStart{ContainerID: id, Done: true, Failed: err != nil && !cut}
			}
			if err != nil && !cut {
				fail(s, c.Name, err, "PostStartHookError", time.Second)
			}
		})
	})
}

// hookCall is one call of a hook: of which container instance, at what address of the pod, and for how long (0: no end).
type hookCall struct {
	handler *v1.LifecycleHandler
	id      string
	podIP   string
	timeout time.Duration
}

func (a *actor) hook(ctx context.Context, p *v1.Pod, c *v1.Container, h hookCall) error {
	if h.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.timeout)
		defer cancel()
	}
	switch {
	case h.handler.Exec != nil:
		code, out, err := a.k.o.Runtime.Exec(ctx, h.id, h.handler.Exec.Command, h.timeout)
		if err == nil && code != 0 {
			err = fmt.Errorf("hook exited with %d: %s", code, out)
		}
		return err
	case h.handler.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.handler.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return fmt.Errorf("sleeping of the hook was cut short: %w", ctx.Err())
		case <-timer.C:
		}
		return nil
	case h.handler.HTTPGet != nil:
		plain, err := probe.HookGet(ctx, h.handler.HTTPGet, probe.Target{Pod: p, Container: c, PodIP: h.podIP})
		if plain && err == nil {
			a.event(p, c.Name, v1.EventTypeWarning, "LifecycleHTTPFallback", fmt.Sprintf(
				"request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", h.handler.HTTPGet.Host))
		}
		return err
	}
	return fmt.Errorf("the hook of container %s has no handler that is known", c.Name)
}
