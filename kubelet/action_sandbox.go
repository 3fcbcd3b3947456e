package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/userns"
)

// createSandbox makes a sandbox with its network, and has the claims of the pod prepared, and makes its folder and its
// cgroup, before it.
func (e *effects) createSandbox(ctx context.Context, j job) []pod.Fact {
	if err := e.claims.Prepare(ctx, j.pod); err != nil {
		e.event(j.pod, "", v1.EventTypeWarning, "FailedPrepareDynamicResources",
			"Failed to prepare dynamic resources: "+err.Error())
		return []pod.Fact{pod.SandboxFailed{Message: err.Error()}}
	}
	box, asked, err := e.makeSandbox(ctx, j)
	if asked {
		e.meter.Sandbox(err)
		e.meter.UserNamespaced(j.pod, err)
	}
	if err == nil {
		return []pod.Fact{pod.SandboxMade{Sandbox: box}}
	}

	var seen []pod.Fact
	if asked {
		seen = e.reread(ctx)
	}
	e.event(j.pod, "", v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
	return append([]pod.Fact{pod.SandboxFailed{Message: err.Error()}}, seen...)
}

// makeSandbox makes a sandbox; asked reports whether the runtime was asked for it.
func (e *effects) makeSandbox(ctx context.Context, j job) (box pod.Sandbox, asked bool, err error) {
	spec, err := e.sandboxSpec(j.pod, j.Attempt)
	if err == nil {
		err = e.runtimeHandler(ctx, j.pod, &spec)
	}
	if err != nil {
		return pod.Sandbox{}, false, err
	}

	warnOfIsolation(e, j.pod)
	// The folder first: by it a later kubelet finds what this one has begun.
	if err := os.MkdirAll(e.podDir(), 0o750); err != nil {
		return pod.Sandbox{}, false, err
	}
	if spec.IDs, err = idsOf(e, j.pod, spec.Handler); err != nil {
		return pod.Sandbox{}, false, err
	}
	if err := e.cgroups.Ensure(j.pod); err != nil {
		return pod.Sandbox{}, false, err
	}
	e.shared()

	box, err = e.runtime.CreateSandbox(context.WithoutCancel(ctx), spec)
	return box, true, err
}

// idsOf returns the ids of a pod that wants a user namespace of its own; nil for any other.
func idsOf(e *effects, p *v1.Pod, handler string) (*userns.Range, error) {
	if p.Spec.HostUsers == nil || *p.Spec.HostUsers || e.windows {
		return nil, nil
	}
	if err := e.userNamespaces(handler); err != nil {
		return nil, err
	}
	if e.placed.IDs == nil {
		return nil, errors.New("this kubelet was not told which user ids pods may have")
	}
	ids, err := e.placed.IDs.Of(p.UID)
	return &ids, err
}

// sandboxSpec returns what the runtime has to know to make the sandbox of a pod.
func (e *effects) sandboxSpec(p *v1.Pod, attempt uint32) (runtime.SandboxSpec, error) {
	settings := e.dns
	if e.hostDNS != nil {
		settings.Host = e.hostDNS()
	}
	cfg, reason, message := dns.ForPod(p, settings)
	if reason != "" && e.sent.first("dns/"+reason) {
		e.event(p, "", v1.EventTypeWarning, reason, message)
	}

	name, err := dns.NameOf(p, e.nodeName, e.dns.Domain)
	spec := runtime.SandboxSpec{Pod: p, Attempt: attempt, Groups: e.groups.Groups(p),
		DNS: &runtime.DNS{Servers: cfg.Servers, Searches: cfg.Searches, Options: cfg.Options}}
	if !p.Spec.HostNetwork { // else it has the node's, and runtimes refuse to set one
		spec.Hostname = name.Kernel
	}
	spec.CgroupParent = e.cgroups.Path(p)
	return spec, err
}

// oldIsolation is the annotation of Kubernetes 1.10 to 1.20 that asked for Hyper-V isolation, of pods with one
// container.
const oldIsolation = "experimental.windows.kubernetes.io/isolation-type"

// warnOfIsolation tells of the annotation that no longer has an effect, and of what replaced it.
func warnOfIsolation(e *effects, p *v1.Pod) {
	if value, ok := p.Annotations[oldIsolation]; ok && e.windows && e.sent.first(oldIsolation) {
		e.event(p, "", v1.EventTypeWarning, "IsolationAnnotation", fmt.Sprintf(
			"The annotation %s=%s has no effect: use a RuntimeClass with the handler runhcs-wcow-hypervisor",
			oldIsolation, value))
	}
}

// classTimeout bounds the question for a class, so that a pod without sandbox is not held up by an API server that is
// away.
const classTimeout = 10 * time.Second

// runtimeHandler fills in the runtime handler that the pod's class names; a pod without a class gets the default one.
// The API server refuses pods whose class does not exist; one that went since fails here, and the pod waits for it to
// return.
func (e *effects) runtimeHandler(ctx context.Context, p *v1.Pod, spec *runtime.SandboxSpec) error {
	name := p.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, classTimeout)
	defer cancel()
	class, err := e.objects.RuntimeClass(ctx, *name)
	if err != nil {
		return err
	}
	spec.Handler = class.Handler
	return nil
}

// stopSandbox stops a sandbox and takes its network away.
func (e *effects) stopSandbox(ctx context.Context, j job) []pod.Fact {
	if err := e.runtime.StopSandbox(context.WithoutCancel(ctx), j.ID); err != nil {
		e.event(j.pod, "", v1.EventTypeWarning, "FailedKillPod", "error killing pod: "+err.Error())
		return []pod.Fact{pod.SandboxStopFailed{ID: j.ID, Message: err.Error()}}
	}
	return []pod.Fact{pod.SandboxStopped{ID: j.ID}}
}
