package effect

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/runtime"
)

// startContainer makes a container and starts it. Its postStart hook is another action.
func (e *Pod) startContainer(ctx context.Context, j Job) []pod.Fact {
	ctx = context.WithoutCancel(ctx)
	p, c := j.Pod, desired.Find(j.Pod, j.Name)
	if c == nil {
		return dropped(j)
	}

	spec, err := e.specs.container(ctx, c, j)
	release := sync.OnceValue(func() error {
		if spec.Release == nil {
			return nil
		}
		return spec.Release()
	})
	defer func() { _ = release() }() // for the ways out before it is read below
	if err != nil {
		return []pod.Fact{e.startFailed(j, c, "CreateContainerConfigError", err)}
	}

	at := e.o.Allot.Place(&spec)
	spec.Created = func(string) { e.Event(p, j.Name, v1.EventTypeNormal, "Created", "Container created") }
	made, err := e.o.Runtime.StartContainer(ctx, spec)
	if changed := release(); changed != nil && err == nil {
		made, err = e.undo(ctx, made, changed)
	}
	e.o.Meter.Life().ImageVolumes(len(imageMounts(p, c, j.ImageVolumes)), imageMountFailed(err))
	if err != nil {
		reason := "CreateContainerError"
		var step *runtime.StepError
		if errors.As(err, &step) {
			reason = step.Reason
		}
		f := e.startFailed(j, c, reason, err)
		if made.ID != "" {
			f.Container = &made
		}
		return append([]pod.Fact{f}, e.reread(ctx)...)
	}

	e.o.Allot.Moved(ctx, p.UID, j.Name, made.ID, at)
	e.Event(p, j.Name, v1.EventTypeNormal, "Started", "Container started")
	e.o.Meter.Container(p, j.Name, "", desired.HostProcess(p, c))
	e.o.Folders.linkLog(p, c.Name, made)
	return []pod.Fact{pod.ContainerStarted{Container: made, Hook: c.Lifecycle != nil && c.Lifecycle.PostStart != nil}}
}

// undo stops a container at once that may have got something else than its mounts. It returns what is left of the
// container, and why it was stopped.
func (e *Pod) undo(ctx context.Context, made observed.Container, cause error) (observed.Container, error) {
	err := &runtime.StepError{Reason: "RunContainerError",
		Err: errors.Join(cause, e.o.Runtime.StopContainer(ctx, made.ID, 0))}
	if now, ok, readErr := e.o.Runtime.Container(ctx, made.ID); readErr == nil && ok {
		now.SandboxID = made.SandboxID
		made = now
	}
	return made, err
}

// startFailed reports a container that could not be started.
func (e *Pod) startFailed(j Job, c *v1.Container, reason string, err error) pod.StartFailed {
	if e.o.Windows {
		err = e.o.Images.Explain(err)
	}
	e.o.Meter.Container(j.Pod, j.Name, reason, desired.HostProcess(j.Pod, c))
	e.Event(j.Pod, j.Name, v1.EventTypeWarning, "Failed", "Error: "+err.Error())
	return pod.StartFailed{Name: j.Name, Reason: reason, Message: err.Error()}
}
