package runtime

import (
	"context"
	"fmt"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ReopenLog makes the runtime write the log of a running container to a new file at the old path.
func (r *Runtime) ReopenLog(ctx context.Context, id string) error {
	ctx, cancel := r.short(ctx)
	defer cancel()
	if _, err := r.client.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("reopening the log of container %s: %w", id, err)
	}
	return nil
}
