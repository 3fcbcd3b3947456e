package kubelet

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
)

// postStart runs the postStart hook beside its container, which counts as started when the hook is done, and is
// stopped if it fails. Until then nothing else of the pod starts.
func (e *effects) postStart(ctx context.Context, j job) []pod.Fact {
	done := []pod.Fact{pod.HookDone{Name: j.Name, ContainerID: j.ID}}
	c := pod.FindContainer(j.pod, j.Name)
	if c == nil || c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return done
	}

	err := guarded(ctx, e.uid, "postStart hook", func() error {
		return e.hook(ctx, j.pod, c, hookCall{c.Lifecycle.PostStart, j.ID, j.podIP})
	})
	if err == nil || ctx.Err() != nil { // if the container ended first, that is what is reported
		return done
	}
	e.event(j.pod, c.Name, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	return []pod.Fact{pod.HookFailed{Name: j.Name, ContainerID: j.ID, Message: err.Error()}}
}

// hookCall is one call of a hook: the container instance, and the address of the pod.
type hookCall struct {
	handler *v1.LifecycleHandler
	id      string
	podIP   string
}

// hook calls a hook of a container and waits for its end.
func (e *effects) hook(ctx context.Context, p *v1.Pod, c *v1.Container, h hookCall) error {
	switch {
	case h.handler.Exec != nil:
		code, out, err := e.runtime.Exec(ctx, h.id, h.handler.Exec.Command, 0)
		if err == nil && code != 0 {
			err = fmt.Errorf("hook exited with %d: %s", code, out)
		}
		return err

	case h.handler.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.handler.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			e.meter.Life().SleepCut()
			return fmt.Errorf("sleeping of the hook was cut short: %w", ctx.Err())
		case <-timer.C:
		}
		return nil

	case h.handler.HTTPGet != nil:
		plain, err := probe.HookGet(ctx, h.handler.HTTPGet, probe.Target{Pod: p, Container: c, PodIP: h.podIP})
		if plain && err == nil {
			e.meter.Life().PlainHook()
			e.event(p, c.Name, v1.EventTypeWarning, "LifecycleHTTPFallback", fmt.Sprintf(
				"request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded",
				h.handler.HTTPGet.Host))
		}
		return err
	}

	return fmt.Errorf("the hook of container %s has no handler that is known", c.Name)
}
