package effect

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// createSandbox makes a sandbox with its network, and has the claims of the pod prepared, and makes its folder and its
// cgroup, before it.
func (e *Pod) createSandbox(ctx context.Context, j Job) []pod.Fact {
	if err := e.o.Allot.Prepare(ctx, j.Pod); err != nil {
		e.Event(j.Pod, "", v1.EventTypeWarning, "FailedPrepareDynamicResources",
			"Failed to prepare dynamic resources: "+err.Error())
		return []pod.Fact{pod.SandboxFailed{Message: err.Error()}}
	}
	box, asked, err := e.makeSandbox(ctx, j)
	if asked {
		e.o.Meter.Sandbox(err)
		e.o.Meter.UserNamespaced(j.Pod, err)
	}
	if err == nil {
		return []pod.Fact{pod.SandboxMade{Sandbox: box}}
	}

	var seen []pod.Fact
	if asked {
		seen = e.reread(ctx)
	}
	e.Event(j.Pod, "", v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
	return append([]pod.Fact{pod.SandboxFailed{Message: err.Error()}}, seen...)
}

// makeSandbox makes a sandbox; asked reports whether the runtime was asked for it.
func (e *Pod) makeSandbox(ctx context.Context, j Job) (box observed.Sandbox, asked bool, err error) {
	spec, err := e.specs.sandbox(j.Pod, j.Attempt)
	if err == nil {
		err = e.specs.handler(ctx, j.Pod, &spec)
	}
	if err != nil {
		return observed.Sandbox{}, false, err
	}

	e.warnOfIsolation(j.Pod)
	// The folder first: by it a later kubelet finds what this one has begun.
	if err := os.MkdirAll(e.podDir(), 0o750); err != nil {
		return observed.Sandbox{}, false, err
	}
	if spec.IDs, err = e.specs.userIDs(j.Pod, spec.Handler); err != nil {
		return observed.Sandbox{}, false, err
	}
	if err := e.o.Cgroups.Ensure(j.Pod); err != nil {
		return observed.Sandbox{}, false, err
	}
	e.o.Shared()

	box, err = e.o.Runtime.CreateSandbox(context.WithoutCancel(ctx), spec)
	return box, true, err
}

// oldIsolation is the annotation of Kubernetes 1.10 to 1.20 that asked for Hyper-V isolation, of pods with one
// container.
const oldIsolation = "experimental.windows.kubernetes.io/isolation-type"

// warnOfIsolation tells of the annotation that no longer has an effect, and of what replaced it.
func (e *Pod) warnOfIsolation(p *v1.Pod) {
	if value, ok := p.Annotations[oldIsolation]; ok && e.o.Windows && e.First(oldIsolation) {
		e.Event(p, "", v1.EventTypeWarning, "IsolationAnnotation", fmt.Sprintf(
			"The annotation %s=%s has no effect: use a RuntimeClass with the handler runhcs-wcow-hypervisor",
			oldIsolation, value))
	}
}

// stopSandbox stops a sandbox and takes its network away.
func (e *Pod) stopSandbox(ctx context.Context, j Job) []pod.Fact {
	if err := e.o.Runtime.StopSandbox(context.WithoutCancel(ctx), j.ID); err != nil {
		e.Event(j.Pod, "", v1.EventTypeWarning, "FailedKillPod", "error killing pod: "+err.Error())
		return []pod.Fact{pod.SandboxStopFailed{ID: j.ID, Message: err.Error()}}
	}
	return []pod.Fact{pod.SandboxStopped{ID: j.ID}}
}
