package effect

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/probe"
)

// postStart runs the postStart hook beside its container, which counts as started when the hook is done, and is
// stopped if it fails. Until then nothing else of the pod starts.
func (e *Pod) postStart(ctx context.Context, j Job) []pod.Fact {
	done := []pod.Fact{pod.HookDone{Name: j.Name, ContainerID: j.ID}}
	c := desired.Find(j.Pod, j.Name)
	if c == nil || c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return done
	}

	err := Guarded(ctx, e.uid, "postStart hook", func() error {
		return hookCall{c.Lifecycle.PostStart, j.Pod, c, j.ID, j.PodIP}.run(ctx, e)
	})
	if err == nil || ctx.Err() != nil { // if the container ended first, that is what is reported
		return done
	}
	e.Event(j.Pod, c.Name, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	return []pod.Fact{pod.HookFailed{Name: j.Name, ContainerID: j.ID, Message: err.Error()}}
}

// hookCall is one call of a hook: of which container instance, and the address of the pod. pod is nil for one that only
// the runtime knows.
type hookCall struct {
	handler   *v1.LifecycleHandler
	pod       *v1.Pod
	container *v1.Container
	id, podIP string
}

// run calls the hook and waits for its end.
func (h hookCall) run(ctx context.Context, e *Pod) error {
	switch {
	case h.handler.Exec != nil:
		code, out, err := e.o.Runtime.Exec(ctx, h.id, h.handler.Exec.Command, 0)
		if err == nil && code != 0 {
			err = fmt.Errorf("hook exited with %d: %s", code, out)
		}
		return err

	case h.handler.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.handler.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			e.o.Meter.Life().SleepCut()
			return fmt.Errorf("sleeping of the hook was cut short: %w", ctx.Err())
		case <-timer.C:
		}
		return nil

	case h.handler.HTTPGet != nil:
		plain, err := probe.HookGet(ctx, h.handler.HTTPGet,
			probe.Target{Pod: h.pod, Container: h.container, PodIP: h.podIP})
		if plain && err == nil {
			e.o.Meter.Life().PlainHook()
			e.Event(h.pod, h.container.Name, v1.EventTypeWarning, "LifecycleHTTPFallback", fmt.Sprintf(
				"request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded",
				h.handler.HTTPGet.Host))
		}
		return err
	}

	return fmt.Errorf("the hook of container %s has no handler that is known", h.container.Name)
}
