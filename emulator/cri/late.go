package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lateBy is how long after its start containerd on Windows sees the end of a container at the earliest. When a container has ended,
// its shim is closed, which waits for the connection to the shim's log pipe. Only the pod's sandbox has that pipe, because one shim
// serves the whole pod; for each other container the look-up gives up 5 s after the start (containerd 2.3.6: openShimLog in
// core/runtime/v2/shim_windows.go, AnonDialer in pkg/shim/util_windows.go; seen with containerd.exe under Wine, 2026-11). The time of the end
// is the true one.
const lateBy = 5 * time.Second

// stillRuns returns for how much longer a container that has ended is shown as running; 0 if it is not.
func stillRuns(p Profile, state runtimeapi.ContainerState, started int64, now time.Time) time.Duration {
	if !p.LateEnds || state != runtimeapi.ContainerState_CONTAINER_EXITED || started <= 0 {
		return 0
	}
	return max(0, time.Unix(0, started).Add(lateBy).Sub(now))
}

// hideEnd shows a container as running if containerd on Windows would not have seen its end yet.
func (s *Server) hideEnd(c *runtimeapi.ContainerStatus) {
	if stillRuns(s.profile(), c.State, c.StartedAt, time.Now()) > 0 {
		c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
		c.FinishedAt, c.ExitCode, c.Reason, c.Message = 0, 0, "", ""
	}
}

// waitForEnd returns when the end of a container that has ended may be seen, or when ctx ends.
func (s *Server) waitForEnd(ctx context.Context, id string) error {
	if !s.profile().LateEnds {
		return nil
	}
	st, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil // it is gone
	}
	return pause(ctx, stillRuns(s.profile(), st.GetStatus().GetState(), st.GetStatus().GetStartedAt(), time.Now()))
}

// pause waits for d, or returns the error of ctx if that ends before.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// StopContainer returns when the end of the container is seen.
func (s service) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	answer, err := s.runtime.StopContainer(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.waitForEnd(ctx, r.ContainerId); err != nil {
		return nil, err
	}
	return answer, nil
}

// ListContainers shows states as ContainerStatus does. A filter by state therefore is applied here.
func (s service) ListContainers(ctx context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	if !s.profile().LateEnds {
		return s.runtime.ListContainers(ctx, r)
	}
	all := &runtimeapi.ContainerFilter{Id: r.GetFilter().GetId(), PodSandboxId: r.GetFilter().GetPodSandboxId(), LabelSelector: r.GetFilter().GetLabelSelector()}
	list, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: all})
	if err != nil {
		return nil, err
	}

	out := &runtimeapi.ListContainersResponse{}
	for _, c := range list.Containers {
		// The list has no start times, so each container that has ended is looked up.
		if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			if st, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.Id}); err == nil &&
				stillRuns(s.profile(), c.State, st.GetStatus().GetStartedAt(), time.Now()) > 0 {
				c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
			}
		}
		if want := r.GetFilter().GetState(); want == nil || want.State == c.State {
			out.Containers = append(out.Containers, c)
		}
	}
	return out, nil
}

// StopPodSandbox returns when the ends of all its containers are seen.
func (s service) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	answer, err := s.runtime.StopPodSandbox(ctx, r)
	if err != nil || !s.profile().LateEnds {
		return answer, err
	}
	list, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: r.PodSandboxId}})
	if err != nil {
		return nil, err
	}
	for _, c := range list.Containers {
		if err := s.waitForEnd(ctx, c.Id); err != nil {
			return nil, err
		}
	}
	return answer, nil
}
