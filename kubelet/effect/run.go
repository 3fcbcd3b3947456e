package effect

import (
	"context"

	"porthole.dev/porthole/kubelet/pod"
)

// Run carries out an action. The first of the facts says how it ended; others are what was seen on the way.
func (e *Pod) Run(ctx context.Context, j Job) []pod.Fact {
	switch j.Kind {
	case pod.PrepareVolumes:
		return e.prepareVolumes(ctx, j)
	case pod.CreateSandbox:
		return e.createSandbox(ctx, j)
	case pod.EnsureImage:
		return e.ensureImage(ctx, j)
	case pod.StartContainer:
		return e.startContainer(ctx, j)
	case pod.RunHook:
		return e.postStart(ctx, j)
	case pod.StopContainer:
		return e.stopContainer(ctx, j)
	case pod.RemoveContainer, pod.RemoveSandbox:
		return e.remove(ctx, j)
	case pod.StopSandbox:
		return e.stopSandbox(ctx, j)
	case pod.ResizePod:
		return e.resizePod(ctx, j)
	case pod.Cleanup:
		return e.cleanUp(ctx, j)
	}

	return dropped(j)
}
