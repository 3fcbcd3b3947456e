package runtimetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one sandbox; its fields are guarded by Fake.mu.
type sandbox struct {
	id      string
	config  *cri.PodSandboxConfig
	handler string
	ip      string
	ready   bool
	created time.Time
}

// state and status are as CRI tells them; a sandbox that is not ready has no address.
func (s *sandbox) state() cri.PodSandboxState {
	if s.ready {
		return cri.PodSandboxState_SANDBOX_READY
	}
	return cri.PodSandboxState_SANDBOX_NOTREADY
}

// hostNetwork reports whether a sandbox has the network of the host. On Windows only one for HostProcess containers
// has it, whatever its Linux settings say (containerd 2.3.6: hostNetwork in internal/cri/server/helpers.go).
func (s *sandbox) hostNetwork() bool {
	if w := s.config.GetWindows(); w != nil {
		return w.GetSecurityContext().GetHostProcess()
	}
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE
}

func (s *sandbox) status() *cri.PodSandboxStatus {
	out := &cri.PodSandboxStatus{Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(),
		CreatedAt: s.created.UnixNano(),
		Labels:    s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
		Network: &cri.PodSandboxNetworkStatus{}}
	if s.ready {
		out.Network.Ip = s.ip
	}
	if l := s.config.GetLinux(); l != nil {
		out.Linux = &cri.LinuxPodSandboxStatus{
			Namespaces: &cri.Namespace{Options: l.GetSecurityContext().GetNamespaceOptions()}}
	}
	return out
}

// sandbox finds one by its id, or nil; the caller holds the lock.
func (f *Fake) sandbox(id string) *sandbox {
	if i := slices.IndexFunc(f.sandboxes, func(s *sandbox) bool { return s.id == id }); i >= 0 {
		return f.sandboxes[i]
	}
	return nil
}

// sandboxDown makes a sandbox not ready; the caller holds the lock.
func (f *Fake) sandboxDown(s *sandbox) {
	s.ready = false
	f.event(s.id, s, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// sandboxName is what a runtime reserves: a pod and the number of the attempt.
func sandboxName(m *cri.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(), fmt.Sprint(m.GetAttempt())}, "_")
}

// RunPodSandbox creates a sandbox. Its name is reserved from the beginning of the call.
func (f runtimeServer) RunPodSandbox(ctx context.Context, r *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse,
	error) {
	m := r.GetConfig().GetMetadata()
	call := Call{Method: "RunPodSandbox", Pod: m.GetUid(), PodName: m.GetName()}
	if m == nil {
		return nil, status.Error(codes.Unknown, "sandbox config must include metadata")
	}
	f.mu.Lock()
	s := &sandbox{id: f.newID(), config: r.GetConfig(), handler: r.GetRuntimeHandler()}
	err := f.reserve("sandbox", sandboxName(m), s.id)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}

	outcome, err := f.enter(ctx, call)
	f.mu.Lock()
	if err == nil {
		err = f.checkSandbox(s)
	}
	if err != nil {
		f.release(s.id)
		f.mu.Unlock()
		return nil, err
	}
	s.ready, s.created = true, time.Now()
	// Each address is given once in some 60,000 sandboxes.
	if !s.hostNetwork() {
		s.ip = fmt.Sprintf("10.97.%d.%d", f.next/250%250, 2+f.next%250)
	}
	f.sandboxes = append(f.sandboxes, s)
	f.event(s.id, s, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	f.event(s.id, s, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	f.mu.Unlock()

	if err := f.leave(ctx, call, outcome); err != nil {
		return nil, err
	}
	return &cri.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// checkSandbox returns the error that containerd has for a sandbox, if any; the caller holds the lock.
func (f runtimeServer) checkSandbox(s *sandbox) error {
	if f.names[sandboxName(s.config.GetMetadata())] != s.id {
		return errVanished
	}
	if s.handler != "" && s.handler != "runc" {
		return status.Errorf(codes.Unknown, "unable to get OCI runtime for sandbox %q: no runtime for %q is configured",
			s.id, s.handler)
	}
	if f.networkDown && !s.hostNetwork() {
		return status.Errorf(codes.Unknown, "failed to setup network for sandbox %q: cni plugin not initialized", s.id)
	}
	return nil
}

// StopPodSandbox kills the containers of a sandbox and ends it. It succeeds if the sandbox is not known.
func (f runtimeServer) StopPodSandbox(ctx context.Context, r *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse,
	error) {
	return answer(ctx, f.Fake, f.about("StopPodSandbox", r.PodSandboxId), func() (*cri.StopPodSandboxResponse, error) {
		if s := f.sandbox(r.PodSandboxId); s != nil {
			f.stopSandbox(s)
		}
		return &cri.StopPodSandboxResponse{}, nil
	})
}

// stopSandbox ends the containers first, as a runtime does. The caller holds the lock.
func (f runtimeServer) stopSandbox(s *sandbox) {
	for _, c := range f.containers {
		if c.sandbox == s {
			f.exit(c, killed)
		}
	}
	if s.ready {
		f.sandboxDown(s)
	}
}

// RemovePodSandbox stops and removes a sandbox with its containers. It succeeds if the sandbox is not known.
func (f runtimeServer) RemovePodSandbox(ctx context.Context,
	r *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	return answer(ctx, f.Fake, f.about("RemovePodSandbox", r.PodSandboxId),
		func() (*cri.RemovePodSandboxResponse, error) {
			s := f.sandbox(r.PodSandboxId)
			if s == nil {
				return &cri.RemovePodSandboxResponse{}, nil
			}
			f.stopSandbox(s)
			for _, c := range slices.Clone(f.containers) {
				if c.sandbox == s {
					if err := f.remove(c); err != nil {
						return nil, status.Errorf(codes.Unknown, "failed to remove container %q: %v", c.id, err)
					}
				}
			}
			f.event(s.id, s, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
			f.sandboxes = slices.DeleteFunc(f.sandboxes, func(other *sandbox) bool { return other == s })
			f.release(s.id)
			return &cri.RemovePodSandboxResponse{}, nil
		})
}

// PodSandboxStatus reads one sandbox.
func (f runtimeServer) PodSandboxStatus(ctx context.Context,
	r *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	return answer(ctx, f.Fake, f.about("PodSandboxStatus", r.PodSandboxId),
		func() (*cri.PodSandboxStatusResponse, error) {
			s := f.sandbox(r.PodSandboxId)
			if s == nil {
				return nil, unknown("sandbox", r.PodSandboxId)
			}
			return &cri.PodSandboxStatusResponse{Status: s.status()}, nil
		})
}

// ListPodSandbox lists the sandboxes that match a filter of id, state and labels.
func (f runtimeServer) ListPodSandbox(ctx context.Context, r *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse,
	error) {
	filter := r.GetFilter()
	call := Call{Method: "ListPodSandbox", Pod: filter.GetLabelSelector()[labelPodUID]}
	return answer(ctx, f.Fake, call, func() (*cri.ListPodSandboxResponse, error) {
		out := &cri.ListPodSandboxResponse{}
		for _, s := range f.sandboxes {
			if filter.GetId() != "" && filter.GetId() != s.id ||
				filter.GetState() != nil && filter.GetState().State != s.state() ||
				!matches(s.config.GetLabels(), filter.GetLabelSelector()) {
				continue
			}
			out.Items = append(out.Items, &cri.PodSandbox{Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(),
				CreatedAt: s.created.UnixNano(), Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(),
				RuntimeHandler: s.handler})
		}
		return out, nil
	})
}

// labelPodUID is the label by which kubelets find the sandboxes and containers of a pod.
const labelPodUID = "io.kubernetes.pod.uid"

// matches reports whether labels have all values of a selector; an empty one fits everything.
func matches(labels, selector map[string]string) bool {
	for key, want := range selector {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	return true
}

// Version answers as containerd does.
func (f runtimeServer) Version(ctx context.Context, _ *cri.VersionRequest) (*cri.VersionResponse, error) {
	return answer(ctx, f.Fake, Call{Method: "Version"}, func() (*cri.VersionResponse, error) {
		return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "v2.3.6",
			RuntimeApiVersion: "v1"}, nil
	})
}

// Status answers that the runtime is ready, and whether its network is.
func (f runtimeServer) Status(ctx context.Context, _ *cri.StatusRequest) (*cri.StatusResponse, error) {
	return answer(ctx, f.Fake, Call{Method: "Status"}, func() (*cri.StatusResponse, error) {
		network := &cri.RuntimeCondition{Type: cri.NetworkReady, Status: !f.networkDown}
		if f.networkDown {
			network.Reason, network.Message = "NetworkPluginNotReady",
				"Network plugin returns error: cni plugin not initialized"
		}
		return &cri.StatusResponse{
			Status: &cri.RuntimeStatus{
				Conditions: []*cri.RuntimeCondition{{Type: cri.RuntimeReady, Status: true}, network}},
			RuntimeHandlers: []*cri.RuntimeHandler{{}, {Name: "runc"}}}, nil
	})
}

// UpdateRuntimeConfig takes the pod range and does nothing with it.
func (f runtimeServer) UpdateRuntimeConfig(ctx context.Context,
	_ *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return answer(ctx, f.Fake, Call{Method: "UpdateRuntimeConfig"}, func() (*cri.UpdateRuntimeConfigResponse, error) {
		return &cri.UpdateRuntimeConfigResponse{}, nil
	})
}

// RuntimeConfig answers what the test has set.
func (f runtimeServer) RuntimeConfig(ctx context.Context, _ *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse,
	error) {
	return answer(ctx, f.Fake, Call{Method: "RuntimeConfig"}, func() (*cri.RuntimeConfigResponse, error) {
		if f.Config == nil {
			return nil, status.Error(codes.Unimplemented, "method RuntimeConfig not implemented")
		}
		return f.Config, nil
	})
}
