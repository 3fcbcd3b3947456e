package runtimetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exit codes of containers that did not end by themselves: killed by SIGKILL, and not started at all (containerd 2.3:
// internal/cri/server/helpers.go).
const (
	killed   = 137
	notBegun = 128
)

// container is one container; its fields are guarded by Fake.mu.
type container struct {
	id       string
	sandbox  *sandbox
	config   *cri.ContainerConfig
	image    *cri.Image
	logPath  string
	process  Process
	timer    *time.Timer   // ends the process
	ended    chan struct{} // closed when the process has ended
	state    cri.ContainerState
	starting bool

	created, started, finished time.Time
	done                       time.Time // when the process has ended or will; zero if that is not known
	exitCode                   int32
	reason, message            string
	resources                  *cri.ContainerResources
}

// end makes a container an ended one, without an event.
func (c *container) end(code int32) bool {
	if c.state != cri.ContainerState_CONTAINER_RUNNING {
		return false
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.state, c.exitCode, c.finished = cri.ContainerState_CONTAINER_EXITED, code, time.Now()
	if !c.done.IsZero() {
		c.finished = c.done
	}
	close(c.ended)
	return true
}

// status returns the container as CRI's ContainerStatus. An exit without a reason of its own is called Completed or
// Error, as containerd calls it.
func (c *container) status() *cri.ContainerStatus {
	out := &cri.ContainerStatus{Id: c.id, Metadata: c.config.GetMetadata(), State: c.state,
		CreatedAt: c.created.UnixNano(), ExitCode: c.exitCode,
		Image: &cri.ImageSpec{Image: c.image.RepoTags[0]}, ImageRef: c.image.RepoDigests[0], ImageId: c.image.Id,
		Reason: c.reason, Message: c.message,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		LogPath: c.logPath, Resources: c.resources}
	if !c.started.IsZero() {
		out.StartedAt = c.started.UnixNano()
	}
	if !c.finished.IsZero() {
		out.FinishedAt = c.finished.UnixNano()
	}
	if c.state == cri.ContainerState_CONTAINER_EXITED && c.reason == "" {
		if out.Reason = "Completed"; c.exitCode != 0 {
			out.Reason = "Error"
		}
	}
	return out
}

// container finds one by its id, or nil; the caller holds the lock.
func (f *Fake) container(id string) *container {
	if i := slices.IndexFunc(f.containers, func(c *container) bool { return c.id == id }); i >= 0 {
		return f.containers[i]
	}
	return nil
}

// exit ends the process of a container and reports whether it ran; the caller holds the lock.
func (f *Fake) exit(c *container, code int32) bool {
	if !c.end(code) {
		return false
	}
	f.event(c.id, c.sandbox, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	return true
}

// lateBy is how long after its start containerd on Windows sees the end of a container at the earliest
// (docs/windows-facts.md).
const lateBy = 5 * time.Second

// exitAfter ends the process of a container after a time. The caller holds the lock.
func (f *Fake) exitAfter(c *container, d time.Duration, code int32) {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.done = time.Now().Add(d)
	if young := time.Until(c.started.Add(lateBy)); f.LateEnds && d < young {
		d = young
	}
	c.timer = time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.exit(c, code)
	})
}

// CreateContainer makes a container in a ready sandbox. Its name is reserved from the beginning of the call.
func (f runtimeServer) CreateContainer(ctx context.Context,
	r *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	m, box := r.GetConfig().GetMetadata(), r.GetSandboxConfig().GetMetadata()
	if m == nil || box == nil {
		return nil, status.Error(codes.Unknown, "container config must include metadata")
	}
	call := Call{Method: "CreateContainer", ID: r.PodSandboxId, Pod: box.GetUid(), PodName: box.GetName()}

	// The container is noted first, and the simulated time of the call comes after it: a second call with the same name
	// that comes meanwhile must be refused, as containerd does.
	f.mu.Lock()
	c, err := f.newContainer(r)
	if err == nil {
		name := strings.Join([]string{m.GetName(),
			sandboxName(&cri.PodSandboxMetadata{Name: box.Name, Namespace: box.Namespace, Uid: box.Uid,
				Attempt: m.Attempt})}, "_")
		err = f.reserve("container", name, c.id)
	}
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}

	// What the call does happens between its two halves of latency: enter and leave.
	outcome, err := f.enter(ctx, call)
	f.mu.Lock()
	if err == nil {
		err = f.resolveImage(c)
	}
	if err == nil {
		err = checkHostProcess(c, r.GetSandboxConfig())
	}
	if err != nil {
		f.release(c.id)
		f.mu.Unlock()
		return nil, err
	}
	c.created = time.Now()
	f.containers = append(f.containers, c)
	f.event(c.id, c.sandbox, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	f.mu.Unlock()

	if err := f.leave(ctx, call, outcome); err != nil {
		return nil, err
	}
	return &cri.CreateContainerResponse{ContainerId: c.id}, nil
}

// newContainer returns the container that a request asks for, if its sandbox is ready; the caller holds the lock.
func (f runtimeServer) newContainer(r *cri.CreateContainerRequest) (*container, error) {
	s := f.sandbox(r.PodSandboxId)
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", r.PodSandboxId)
	}
	if !s.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", s.id)
	}
	c := &container{id: f.newID(), sandbox: s, config: r.Config, state: cri.ContainerState_CONTAINER_CREATED,
		ended: make(chan struct{})}
	if r.Config.LogPath != "" && r.SandboxConfig.LogDirectory != "" {
		c.logPath = filepath.Join(r.SandboxConfig.LogDirectory, r.Config.LogPath)
	}
	if l := r.Config.GetLinux().GetResources(); l != nil {
		c.resources = &cri.ContainerResources{Linux: l}
	}
	return c, nil
}

// resolveImage finds the image of a container, which must be present; the caller holds the lock.
func (f runtimeServer) resolveImage(c *container) error {
	name := c.config.GetImage().GetImage()
	if c.image = f.image(name); c.image == nil {
		return status.Errorf(codes.NotFound, "failed to resolve image %q: not found", name)
	}
	if f.sandbox(c.sandbox.id) != c.sandbox {
		return status.Errorf(codes.NotFound, "sandbox %q not found", c.sandbox.id)
	}
	return nil
}

// checkHostProcess returns containerd's error for a Windows container that runs on the host itself while its pod does
// not, or the other way round (2.3.6: buildWindowsSpec in internal/cri/server/container_create.go). containerd
// compares with the configuration that comes with the request; what the sandbox was made with counts too, because its
// shim was told so.
func checkHostProcess(c *container, box *cri.PodSandboxConfig) error {
	own := c.config.GetWindows().GetSecurityContext().GetHostProcess()
	for _, config := range []*cri.PodSandboxConfig{box, c.sandbox.config} {
		if config.GetWindows().GetSecurityContext().GetHostProcess() != own {
			return status.Errorf(codes.Unknown,
				"failed to generate container %q spec: pod spec and all containers inside must have the HostProcess field set to be valid", c.id)
		}
	}
	return nil
}

// StartContainer starts a created container. If that fails, the container has exited with the reason StartError.
func (f runtimeServer) StartContainer(ctx context.Context, r *cri.StartContainerRequest) (*cri.StartContainerResponse,
	error) {
	call := f.about("StartContainer", r.ContainerId)
	f.mu.Lock()
	c, err := f.startable(r.ContainerId)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}

	outcome, err := f.enter(ctx, call)
	f.mu.Lock()
	if err == nil {
		err = f.start(c)
	}
	// With LateEnds the failure comes late, as from a runtime that is busy.
	if err != nil && f.LateEnds {
		f.mu.Unlock()
		if gone := f.pause(ctx, lateBy); gone != nil {
			err = gone
		}
		f.mu.Lock()
	}
	c.starting = false
	if err != nil {
		c.state, c.exitCode, c.finished = cri.ContainerState_CONTAINER_EXITED, notBegun, time.Now()
		c.reason, c.message = "StartError", status.Convert(err).Message()
		f.mu.Unlock()
		return nil, err
	}
	f.event(c.id, c.sandbox, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	f.mu.Unlock()

	if err := f.leave(ctx, call, outcome); err != nil {
		return nil, err
	}
	return &cri.StartContainerResponse{}, nil
}

// startable finds a created container and marks it as starting; the caller holds the lock.
func (f runtimeServer) startable(id string) (*container, error) {
	c := f.container(id)
	switch {
	case c == nil:
		return nil, unknown("container", id)
	case c.state != cri.ContainerState_CONTAINER_CREATED:
		return nil, status.Errorf(codes.Unknown,
			"failed to set starting state for container %q: container is in %s state", id, c.state)
	case c.starting:
		return nil, status.Errorf(codes.Unknown,
			"failed to set starting state for container %q: container is already in starting state", id)
	}
	c.starting = true
	return c, nil
}

// start begins the process of a container and its log; the caller holds the lock.
func (f runtimeServer) start(c *container) error {
	if f.container(c.id) != c {
		return errVanished
	}
	if !c.sandbox.ready {
		return status.Errorf(codes.Unknown, "sandbox container %q is not running", c.sandbox.id)
	}
	if c.logPath != "" {
		// The log is there from the start, if the container has one.
		if err := os.WriteFile(c.logPath, nil, 0o640); err != nil {
			return status.Errorf(codes.Unknown, "failed to create container loggers: %v", err)
		}
	}

	program := f.Program
	if program == nil {
		program = TestProgram
	}
	c.process = program(c.config)
	if c.process.StartError != "" {
		return status.Error(codes.Unknown, "failed to create containerd task: "+c.process.StartError)
	}

	c.state, c.started = cri.ContainerState_CONTAINER_RUNNING, time.Now()
	if c.process.Runs > 0 {
		f.exitAfter(c, c.process.Runs, c.process.ExitCode)
	}
	return nil
}

// StopContainer asks a container to end and kills it after the timeout. It succeeds if the container does not run or
// is not known.
func (f runtimeServer) StopContainer(ctx context.Context, r *cri.StopContainerRequest) (*cri.StopContainerResponse,
	error) {
	call := f.about("StopContainer", r.ContainerId)
	outcome, err := f.enter(ctx, call)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	c := f.container(r.ContainerId)
	running := c != nil && c.state == cri.ContainerState_CONTAINER_RUNNING
	if running && r.Timeout > 0 && !c.process.IgnoresStop {
		f.exitAfter(c, c.process.Stops, c.process.StopCode)
	}
	f.mu.Unlock()
	if running {
		if err := f.awaitEnd(ctx, c, time.Duration(r.Timeout)*time.Second); err != nil {
			return nil, err
		}
	}
	if err := f.leave(ctx, call, outcome); err != nil {
		return nil, err
	}
	return &cri.StopContainerResponse{}, nil
}

// awaitEnd waits for the end of a process and kills it after grace.
func (f runtimeServer) awaitEnd(ctx context.Context, c *container, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-timer.C:
	}

	f.mu.Lock()
	if c.state == cri.ContainerState_CONTAINER_RUNNING {
		f.exitAfter(c, 0, killed)
	}
	f.mu.Unlock()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// RemoveContainer kills and removes a container. It succeeds if the container is not known.
func (f runtimeServer) RemoveContainer(ctx context.Context,
	r *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	return answer(ctx, f.Fake, f.about("RemoveContainer", r.ContainerId), func() (*cri.RemoveContainerResponse, error) {
		if c := f.container(r.ContainerId); c != nil {
			f.exit(c, killed)
			if err := f.remove(c); err != nil {
				return nil, err
			}
		}
		return &cri.RemoveContainerResponse{}, nil
	})
}

// remove removes a container that does not run; the caller holds the lock.
func (f runtimeServer) remove(c *container) error {
	if c.starting {
		return status.Errorf(codes.Unknown,
			"failed to set removing state for container %q: container is in starting state, can't be removed", c.id)
	}
	f.containers = slices.DeleteFunc(f.containers, func(other *container) bool { return other == c })
	f.release(c.id)
	f.event(c.id, c.sandbox, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
	return nil
}

// ContainerStatus reads one container.
func (f runtimeServer) ContainerStatus(ctx context.Context,
	r *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	return answer(ctx, f.Fake, f.about("ContainerStatus", r.ContainerId), func() (*cri.ContainerStatusResponse, error) {
		c := f.container(r.ContainerId)
		if c == nil {
			return nil, unknown("container", r.ContainerId)
		}
		return &cri.ContainerStatusResponse{Status: c.status()}, nil
	})
}

// ListContainers lists the containers that match a filter of id, sandbox, state and labels.
func (f runtimeServer) ListContainers(ctx context.Context, r *cri.ListContainersRequest) (*cri.ListContainersResponse,
	error) {
	filter := r.GetFilter()
	call := Call{Method: "ListContainers", Pod: filter.GetLabelSelector()[labelPodUID]}
	return answer(ctx, f.Fake, call, func() (*cri.ListContainersResponse, error) {
		out := &cri.ListContainersResponse{}
		for _, c := range f.containers {
			if filter.GetId() != "" && filter.GetId() != c.id ||
				filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.sandbox.id ||
				filter.GetState() != nil && filter.GetState().State != c.state ||
				!matches(c.config.GetLabels(), filter.GetLabelSelector()) {
				continue
			}
			out.Containers = append(out.Containers,
				&cri.Container{Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.GetMetadata(),
					Image: c.config.GetImage(), ImageRef: c.image.Id, ImageId: c.image.Id, State: c.state,
					CreatedAt: c.created.UnixNano(),
					Labels:    c.config.GetLabels(), Annotations: c.config.GetAnnotations()})
		}
		return out, nil
	})
}

// UpdateContainerResources changes the limits of a container, which need not run.
func (f runtimeServer) UpdateContainerResources(ctx context.Context,
	r *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	return answer(ctx, f.Fake, f.about("UpdateContainerResources", r.ContainerId),
		func() (*cri.UpdateContainerResourcesResponse, error) {
			c := f.container(r.ContainerId)
			if c == nil {
				return nil, status.Error(codes.NotFound, "failed to find container: not found")
			}
			if r.Linux != nil {
				old := &cri.LinuxContainerResources{}
				if c.resources.GetLinux() != nil {
					old = proto.Clone(c.resources.Linux).(*cri.LinuxContainerResources)
				}
				proto.Merge(old, r.Linux)
				c.resources = &cri.ContainerResources{Linux: old}
			}
			return &cri.UpdateContainerResourcesResponse{}, nil
		})
}

// ContainerStats returns the memory that a container uses.
func (f runtimeServer) ContainerStats(ctx context.Context, r *cri.ContainerStatsRequest) (*cri.ContainerStatsResponse,
	error) {
	return answer(ctx, f.Fake, f.about("ContainerStats", r.ContainerId), func() (*cri.ContainerStatsResponse, error) {
		c := f.container(r.ContainerId)
		if c == nil {
			return nil, status.Error(codes.NotFound, "failed to find container: not found")
		}
		used := uint64(1 << 20)
		if f.Memory != nil {
			used = f.Memory(c.config)
		}
		return &cri.ContainerStatsResponse{
			Stats: &cri.ContainerStats{Memory: &cri.MemoryUsage{UsageBytes: &cri.UInt64Value{Value: used}}}}, nil
	})
}

// ReopenContainerLog begins a new log file at the old path.
func (f runtimeServer) ReopenContainerLog(ctx context.Context,
	r *cri.ReopenContainerLogRequest) (*cri.ReopenContainerLogResponse, error) {
	return answer(ctx, f.Fake, f.about("ReopenContainerLog", r.ContainerId),
		func() (*cri.ReopenContainerLogResponse, error) {
			c := f.container(r.ContainerId)
			if c == nil {
				return nil, unknown("container", r.ContainerId)
			}
			if c.state != cri.ContainerState_CONTAINER_RUNNING {
				return nil, status.Error(codes.Unknown, "container is not running")
			}
			if err := os.WriteFile(c.logPath, nil, 0o640); err != nil {
				return nil, fmt.Errorf("failed to create and open log file: %w", err)
			}
			return &cri.ReopenContainerLogResponse{}, nil
		})
}

// ExecSync runs a command in a running container. A command that takes longer than its timeout is an error.
func (f runtimeServer) ExecSync(ctx context.Context, r *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	call := f.about("ExecSync", r.ContainerId)
	outcome, err := f.enter(ctx, call)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	c := f.container(r.ContainerId)
	if c == nil || c.state != cri.ContainerState_CONTAINER_RUNNING {
		defer f.mu.Unlock()
		if c == nil {
			return nil, status.Errorf(codes.NotFound,
				"failed to exec in container: failed to find container %q in store: not found", r.ContainerId)
		}
		return nil, status.Errorf(codes.Unknown, "failed to exec in container: container is in %s state", c.state)
	}
	f.mu.Unlock()

	exec := f.RunCommand
	if exec == nil {
		exec = TestExec
	}
	code, output, took := exec(c.config, r.Cmd)
	if limit := time.Duration(r.Timeout) * time.Second; limit > 0 && took > limit {
		if err := f.pause(ctx, limit); err != nil {
			return nil, err
		}
		return nil, status.Errorf(codes.DeadlineExceeded,
			"failed to exec in container: timeout %v exceeded: context deadline exceeded", limit)
	}
	select { // the end of the container is the end of what runs in it
	case <-c.ended:
		code = killed
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-time.After(took):
	}
	if err := f.leave(ctx, call, outcome); err != nil {
		return nil, err
	}
	return &cri.ExecSyncResponse{Stdout: []byte(output), ExitCode: code}, nil
}
