package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/runtime"
)

// classTimeout bounds the question for a class, so that a pod without sandbox is not held up by an API server that is away.
const classTimeout = 10 * time.Second

// runtimeHandler fills in the runtime handler that the pod's class names; a pod without a class gets the default one. The
// API server refuses pods whose class does not exist; one that went since fails here, and the pod waits for it to return.
func (a *actor) runtimeHandler(ctx context.Context, p *v1.Pod, spec *runtime.SandboxSpec) error {
	name := p.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, classTimeout)
	defer cancel()
	class, err := a.k.o.API.RuntimeClass(ctx, *name)
	if err != nil {
		return err
	}
	spec.Handler = class.Handler
	return nil
}
