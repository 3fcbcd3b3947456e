package runtime

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CgroupDriver asks the runtime how it makes cgroups: cgroupfs or systemd, as the kubelet's configuration calls them.
// It returns "" if the runtime does not know the call (containerd before 2.0, CRI-O before 1.28), or has no Linux
// containers.
func (r *Runtime) CgroupDriver(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := r.client.RuntimeConfig(ctx, &cri.RuntimeConfigRequest{})
	if status.Code(err) == codes.Unimplemented {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking the runtime for its cgroup driver: %w", err)
	}

	if resp.Linux == nil { // an empty answer would read as systemd, which is 0
		return "", nil
	}
	switch d := resp.Linux.CgroupDriver; d {
	case cri.CgroupDriver_SYSTEMD:
		return "systemd", nil
	case cri.CgroupDriver_CGROUPFS:
		return "cgroupfs", nil
	default:
		return "", fmt.Errorf("the runtime has a cgroup driver that is not known: %d", d)
	}
}
