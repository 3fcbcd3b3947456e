package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// Options configure a Runtime.
type Options struct {
	// PodLogsDir is where container logs go: <PodLogsDir>/<ns>_<name>_<uid>/<container>/<attempt>.log. Required.
	PodLogsDir string
	// RootDir is the kubelet's folder, in which the files of termination messages are. Empty: no such file is read.
	RootDir string
	// Windows says that the containers are Windows containers.
	Windows bool
	// CPUs is the number of logical processors, for Windows CPU limits.
	CPUs int64
	// MemoryBytes is the size of the node's memory, for OOM scores.
	MemoryBytes int64
	// SeccompRoot is the folder of the node's own seccomp profiles. With SeccompDefault, containers that name no
	// profile get the runtime's.
	SeccompRoot    string
	SeccompDefault bool
	// SandboxProfile is the path of the seccomp profile for sandboxes, as WriteSandboxProfile returns it. Empty:
	// RuntimeDefault.
	SandboxProfile string
	// CFSQuota turns CPU limits into CFS quotas (Linux), in periods of CFSPeriod; zero is upstream's default.
	CFSQuota  bool
	CFSPeriod time.Duration
	// Cgroups says what else the node's cgroups limit (Linux).
	Cgroups Cgroups
	// RequestTimeout bounds one call; zero is 2 minutes. A stop may take its grace period longer.
	RequestTimeout time.Duration
}

// Runtime calls the runtime service. It is safe for concurrent use.
type Runtime struct {
	client     cri.RuntimeServiceClient
	containerd containerd
	o          Options

	boxProfile boxProfile
}

// Version is the runtime's name and version.
type Version struct{ Name, Version string }

// Health is how the runtime reports its own state.
type Health struct {
	RuntimeReady, NetworkReady bool
	// RuntimeMessage and NetworkMessage have the conditions with their reasons.
	RuntimeMessage, NetworkMessage string
	Handlers                       []Handler
	SupplementalGroupsPolicy       bool
}

// Handler is one runtime handler with its features.
type Handler struct {
	Name                                    string
	RecursiveReadOnlyMounts, UserNamespaces bool
}

// short bounds a call that the runtime answers at once.
func (r *Runtime) short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.o.RequestTimeout)
}

// Version asks the runtime for its name and version.
func (r *Runtime) Version(ctx context.Context) (Version, error) {
	ctx, cancel := r.short(ctx)
	defer cancel()
	v, err := r.client.Version(ctx, &cri.VersionRequest{Version: "v1"})
	if err != nil {
		return Version{}, fmt.Errorf("asking the runtime for its version: %w", err)
	}
	return Version{Name: v.RuntimeName, Version: v.RuntimeVersion}, nil
}

// Health asks whether the runtime and its network are ready.
func (r *Runtime) Health(ctx context.Context) (Health, error) {
	// Ten seconds: a runtime that does not say how it is counts as not ready.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := r.client.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return Health{}, fmt.Errorf("asking the runtime for its status: %w", err)
	}

	var h Health
	for _, c := range resp.GetStatus().GetConditions() {
		text := fmt.Sprintf("%s=%v reason:%s message:%s", c.Type, c.Status, c.Reason, c.Message)
		switch c.Type {
		case cri.RuntimeReady:
			h.RuntimeReady, h.RuntimeMessage = c.Status, text
		case cri.NetworkReady:
			h.NetworkReady, h.NetworkMessage = c.Status, text
		}
	}

	// Handlers tell which features a RuntimeClass has.
	for _, x := range resp.RuntimeHandlers {
		h.Handlers = append(h.Handlers,
			Handler{Name: x.Name, RecursiveReadOnlyMounts: x.GetFeatures().GetRecursiveReadOnlyMounts(),
				UserNamespaces: x.GetFeatures().GetUserNamespaces()})
	}
	h.SupplementalGroupsPolicy = resp.GetFeatures().GetSupplementalGroupsPolicy()
	return h, nil
}

// SetPodCIDR sets the node's pod ranges in the runtime, for its CNI template.
func (r *Runtime) SetPodCIDR(ctx context.Context, cidrs string) error {
	ctx, cancel := r.short(ctx)
	defer cancel()
	_, err := r.client.UpdateRuntimeConfig(ctx, &cri.UpdateRuntimeConfigRequest{
		RuntimeConfig: &cri.RuntimeConfig{NetworkConfig: &cri.NetworkConfig{PodCidr: cidrs}}})
	if err != nil {
		return fmt.Errorf("telling the runtime the pod CIDR %s: %w", cidrs, err)
	}
	return nil
}

// CreateSandbox creates and starts a sandbox and returns it with its addresses. An error does not mean that no sandbox
// was created.
func (r *Runtime) CreateSandbox(ctx context.Context, spec SandboxSpec) (observed.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.o.RequestTimeout)
	defer cancel()
	cfg, err := r.o.sandboxConfig(spec)
	if err != nil {
		return observed.Sandbox{}, err
	}
	if err := os.MkdirAll(cfg.LogDirectory, 0o755); err != nil {
		return observed.Sandbox{}, fmt.Errorf("creating the log folder of the pod: %w", err)
	}

	ours := r.boxProfile.of(spec.Handler)
	if ours != nil {
		cfg.Linux.SecurityContext.Seccomp = ours
	}
	resp, err := r.client.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: cfg, RuntimeHandler: spec.Handler})
	if err != nil {
		r.boxProfile.noteRefusal(ctx, ours, err)
		return observed.Sandbox{}, err // the event quotes the runtime, as upstream's does
	}

	box := observed.Sandbox{ID: resp.PodSandboxId, Attempt: spec.Attempt, Ready: true,
		HostNetwork: spec.Pod.Spec.HostNetwork,
		CreatedAt:   time.Now(), Handler: spec.Handler}
	full, err := r.sandbox(ctx, resp.PodSandboxId)
	if err != nil {
		return box, err
	}
	return full, nil
}

// errNoStatus is an answer about an object in which nothing is said of it.
var errNoStatus = errors.New("the runtime's answer holds no status")

// sandbox reads the status of one sandbox. An answer without one is an error.
func (r *Runtime) sandbox(ctx context.Context, id string) (observed.Sandbox, error) {
	st, err := r.client.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: id})
	if err == nil && st.Status == nil {
		err = errNoStatus
	}
	if err != nil {
		return observed.Sandbox{}, fmt.Errorf("reading the status of sandbox %s: %w", id, err)
	}
	return toSandbox(st.Status), nil
}

// StartContainer creates and starts one container. An error is a *StepError. A container that was created and could
// not be started is returned with it.
func (r *Runtime) StartContainer(ctx context.Context, spec ContainerSpec) (observed.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.o.RequestTimeout)
	defer cancel()
	cfg, err := r.o.containerConfig(spec)
	var box *cri.PodSandboxConfig
	if err == nil {
		box, err = r.o.sandboxConfig(spec.Sandbox)
	}
	if err != nil {
		return observed.Container{}, &StepError{"CreateContainerConfigError", err}
	}

	logDir := filepath.Join(PodLogDir(r.o.PodLogsDir, spec.Sandbox.Pod), spec.Container.Name)
	if err := os.MkdirAll(logDir, 0o755); err != nil {
		return observed.Container{}, &StepError{"CreateContainerError", fmt.Errorf("creating the log folder: %w", err)}
	}

	made, err := r.client.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: spec.SandboxID, Config: cfg,
		SandboxConfig: box})
	if err != nil {
		return observed.Container{}, &StepError{"CreateContainerError", described{err}}
	}
	if spec.Created != nil {
		spec.Created(made.ContainerId)
	}

	if _, err := r.client.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		c, readErr := r.container(ctx, made.ContainerId)
		if readErr == nil {
			c.SandboxID = spec.SandboxID
		}
		return c, &StepError{"RunContainerError", described{err}}
	}

	c, err := r.container(ctx, made.ContainerId)
	if err != nil { // it runs; the next event has the details
		c = observed.Container{ID: made.ContainerId, Name: spec.Container.Name, Attempt: spec.Attempt,
			State: observed.Running, Hash: desired.Hash(spec.Container), Reset: spec.Reset,
			CreatedAt: time.Now(), StartedAt: time.Now()}
	}
	c.SandboxID = spec.SandboxID
	return c, nil
}

// container reads the status of one container, as sandbox does.
func (r *Runtime) container(ctx context.Context, id string) (observed.Container, error) {
	st, err := r.client.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	if err == nil && st.Status == nil {
		err = errNoStatus
	}
	if err != nil {
		return observed.Container{}, fmt.Errorf("reading the status of container %s: %w", id, err)
	}
	return r.o.toContainer(st.Status), nil
}

// Container reads one container. ok is false if the runtime does not know it.
func (r *Runtime) Container(ctx context.Context, id string) (c observed.Container, ok bool, err error) {
	ctx, cancel := r.short(ctx)
	defer cancel()
	c, err = r.container(ctx, id)
	if status.Code(err) == codes.NotFound {
		return observed.Container{}, false, nil
	}
	return c, err == nil, err
}

// StepError is the error of a container that could not be started, with the reason for its status.
type StepError struct {
	Reason string
	Err    error
}

// described is an error of the runtime that prints its message only, without the prefix that gRPC adds.
type described struct{ err error }

// The text is that of the runtime alone, without gRPC's code.
func (d described) Error() string { return status.Convert(d.err).Message() }
func (d described) Unwrap() error { return d.err }

func (e *StepError) Error() string { return e.Err.Error() }
func (e *StepError) Unwrap() error { return e.Err }

// StopContainer asks a container to end and kills it after grace. It succeeds if the container is gone.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+r.o.RequestTimeout)
	defer cancel()
	_, err := r.client.StopContainer(ctx,
		&cri.StopContainerRequest{ContainerId: id, Timeout: int64((grace + time.Second/2) / time.Second)})
	return gone("stopping container", id, err)
}

// RemoveContainer removes a container, also one whose start was cut short. It succeeds if the container is gone.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := r.short(ctx)
	defer cancel()
	remove := func() error {
		_, err := r.client.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id})
		return gone("removing container", id, err)
	}
	err := remove()
	if status.Code(err) != codes.FailedPrecondition {
		return err
	}
	if ended := r.containerd.endTask(ctx, id); ended != nil {
		return errors.Join(err, ended)
	}
	return remove()
}

// StopSandbox ends a sandbox, the containers in it, and its network. It succeeds if the sandbox is gone.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	ctx, cancel := r.short(ctx)
	defer cancel()
	_, err := r.client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	return gone("stopping sandbox", id, err)
}

// RemoveSandbox removes a sandbox and all its containers, also those whose start was cut short. It succeeds if the
// sandbox is gone.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	ctx, cancel := r.short(ctx)
	defer cancel()
	remove := func() error {
		_, err := r.client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
		return gone("removing sandbox", id, err)
	}

	err := remove()
	if status.Code(err) == codes.FailedPrecondition { // a container of it that cannot be removed
		if more := r.removeContainers(ctx, id); more != nil {
			return errors.Join(err, more)
		}
		err = remove()
	}
	if err != nil {
		return err
	}
	return r.containerd.forgotten(ctx, id)
}

// removeContainers removes all containers of a sandbox that has been stopped.
func (r *Runtime) removeContainers(ctx context.Context, sandbox string) error {
	list, err := r.client.ListContainers(ctx,
		&cri.ListContainersRequest{Filter: &cri.ContainerFilter{PodSandboxId: sandbox}})
	if err != nil {
		return fmt.Errorf("listing the containers of sandbox %s: %w", sandbox, err)
	}
	var errs []error
	for _, c := range list.Containers {
		errs = append(errs, r.RemoveContainer(ctx, c.Id))
	}
	return errors.Join(errs...)
}

// gone makes an error of a removal; what is not there any more is no error.
func gone(doing, id string, err error) error {
	if err == nil || status.Code(err) == codes.NotFound {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, id, err)
}

// Exec runs a command in a container and returns its exit code and combined output. Without a timeout (0) it waits
// until ctx ends.
func (r *Runtime) Exec(ctx context.Context, id string, cmd []string, timeout time.Duration) (int, []byte, error) {
	seconds := int64((timeout + time.Second - 1) / time.Second)
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout+r.o.RequestTimeout)
		defer cancel()
	}
	resp, err := r.client.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: seconds})
	if err != nil {
		return -1, nil, fmt.Errorf("running a command in container %s: %w", id, err)
	}
	return int(resp.ExitCode), append(resp.Stdout, resp.Stderr...), nil
}

// Client returns the runtime service itself, for streams and statistics.
func (r *Runtime) Client() cri.RuntimeServiceClient { return r.client }
