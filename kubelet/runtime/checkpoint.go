package runtime

import (
	"context"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/serve"
)

// Checkpoint makes the runtime write the state of a running container into an archive. It waits for RequestTimeout, or
// longer if the request says so.
func (r *Runtime) Checkpoint(ctx context.Context, q serve.CheckpointRequest) error {
	limit := max(q.Timeout, r.o.RequestTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := r.client.CheckpointContainer(ctx,
		&cri.CheckpointContainerRequest{ContainerId: q.ContainerID, Location: q.Location,
			Timeout: int64(limit / time.Second)})
	return err // the caller adds what failed; the client sees the runtime's message, as with upstream
}
