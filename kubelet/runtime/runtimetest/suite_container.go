package runtimetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// needsImage checks that a refused creation frees the container's name.
func needsImage(c *check) {
	cfg := c.box("a")
	r := c.creation(c.sandbox(cfg), cfg, "sleep")
	r.Config.Image.Image = "testkit.local/absent:1"
	_, err := c.runtime.CreateContainer(c.ctx, r)
	c.refused(err, codes.NotFound, `failed to resolve image "testkit.local/absent:1"`)

	r.Config.Image.Image = c.host.Image
	c.create(r) // the name is free
}

// containerNames checks that a second container of the same name and attempt is refused until the first is removed.
// The kubelet relies on it: a creation that it repeats, because it did not get the answer, makes no second container.
func containerNames(c *check) {
	cfg := c.box("a")
	r := c.creation(c.sandbox(cfg), cfg, "sleep")
	id := c.create(r)
	_, err := c.runtime.CreateContainer(c.ctx, r)
	c.refused(err, codes.OK, `is reserved for "`+id+`"`)

	next := c.creation(r.PodSandboxId, cfg, "sleep")
	next.Config.Metadata.Attempt = 1
	c.create(next)

	_, err = c.runtime.RemoveContainer(c.ctx, &cri.RemoveContainerRequest{ContainerId: id})
	c.must(err)
	c.create(r)
}

// startsOnce checks the states and times of a container from creation to end, and that it can be started only in the
// first: the kubelet makes a new container for each restart.
func startsOnce(c *check) {
	cfg := c.box("a")
	id := c.create(c.creation(c.sandbox(cfg), cfg, "sleep"))
	if s := c.status(id); s.State != cri.ContainerState_CONTAINER_CREATED || s.StartedAt != 0 || s.FinishedAt != 0 ||
		s.CreatedAt == 0 {
		c.t.Errorf("a created container: %+v", s)
	}

	c.start(id)
	if s := c.status(id); s.State != cri.ContainerState_CONTAINER_RUNNING || s.StartedAt == 0 || s.FinishedAt != 0 {
		c.t.Errorf("a running container: %+v", s)
	}
	if _, err := os.Stat(filepath.Join(cfg.LogDirectory, "app", "0.log")); err != nil {
		c.t.Errorf("its log: %v", err)
	}
	again := &cri.StartContainerRequest{ContainerId: id}
	_, err := c.runtime.StartContainer(c.ctx, again)
	c.refused(err, codes.OK, "container is in CONTAINER_RUNNING state")

	c.stop(id, 10)
	_, err = c.runtime.StartContainer(c.ctx, again)
	c.refused(err, codes.OK, "container is in CONTAINER_EXITED state")
}

// startError checks what is kept of a container whose program does not exist.
func startError(c *check) {
	cfg := c.box("a")
	r := c.creation(c.sandbox(cfg), cfg)
	r.Config.Command = []string{"nothing"}
	id := c.create(r)
	_, err := c.runtime.StartContainer(c.ctx, &cri.StartContainerRequest{ContainerId: id})
	c.refused(err, codes.OK, `exec: "nothing": executable file not found in $PATH`)
	s := c.status(id)
	if s.State != cri.ContainerState_CONTAINER_EXITED || s.ExitCode != notBegun || s.Reason != "StartError" ||
		s.StartedAt != 0 || s.FinishedAt == 0 ||
		!strings.Contains(s.Message, "executable file not found") {
		c.t.Errorf("a container that could not be started: %+v", s)
	}
}

// exitCodes checks what the status of an ended container says: the exit code, the reason, the times, and the path of
// the log.
func exitCodes(c *check) {
	cfg := c.box("a")
	box := c.sandbox(cfg)
	for i, want := range []struct {
		args   []string
		code   int32
		reason string
	}{{[]string{"exit", "3"}, 3, "Error"}, {[]string{"exit", "0"}, 0, "Completed"}} {
		r := c.creation(box, cfg, want.args...)
		r.Config.Metadata.Attempt = uint32(i)
		s := c.exited(c.start(c.create(r)))

		// The runtime notes the start after its program has begun, so that a short one may have ended before it.
		if s.ExitCode != want.code || s.Reason != want.reason || s.StartedAt == 0 || s.FinishedAt < s.CreatedAt ||
			s.Metadata.Attempt != uint32(i) ||
			s.LogPath != filepath.Join(cfg.LogDirectory, "app", "0.log") {
			c.t.Errorf("%v ended as %+v", want.args, s)
		}
	}
}

// stopping checks StopContainer with a program that ends on SIGTERM, with one that ignores it, without a grace period,
// twice, and before the start. The exit code says how the container ended, and the kubelet shows it to users.
func stopping(c *check) {
	cfg := c.box("a")
	box := c.sandbox(cfg)
	run := func(attempt uint32, args ...string) string {
		r := c.creation(box, cfg, args...)
		r.Config.Metadata.Attempt = attempt
		return c.start(c.create(r))
	}
	polite := run(0, "sleep")
	c.stop(polite, 20)
	// 143 is SIGTERM's own: it may come before the program listens to it.
	if s := c.status(polite); s.State != cri.ContainerState_CONTAINER_EXITED || s.ExitCode != 0 && s.ExitCode != 143 {
		c.t.Errorf("told to stop: %+v", s)
	}
	c.stop(polite, 20) // stopped already

	rude := run(1, "sleep", "600")
	c.stop(rude, 20)
	if s := c.status(rude); s.State != cri.ContainerState_CONTAINER_EXITED || s.ExitCode != 143 {
		c.t.Errorf("told to stop, without listening to signals: %+v", s)
	}

	hasty := run(2, "sleep")
	c.stop(hasty, 0)
	if s := c.status(hasty); s.State != cri.ContainerState_CONTAINER_EXITED || s.ExitCode != killed {
		c.t.Errorf("stopped without time: %+v", s)
	}

	r := c.creation(box, cfg, "sleep")
	r.Config.Metadata.Attempt = 3
	created := c.create(r)
	c.stop(created, 20)
	if s := c.status(created); s.State != cri.ContainerState_CONTAINER_CREATED {
		c.t.Errorf("stopped before its start: %+v", s)
	}
}

// removing checks that a running container can be removed, that a removal may be repeated, and that its log stays: the
// kubelet owns the folder of logs.
func removing(c *check) {
	cfg := c.box("a")
	box := c.sandbox(cfg)
	id := c.start(c.create(c.creation(box, cfg, "sleep")))
	remove := &cri.RemoveContainerRequest{ContainerId: id}
	_, err := c.runtime.RemoveContainer(c.ctx, remove) // although it runs
	c.must(err)
	_, err = c.runtime.RemoveContainer(c.ctx, remove)
	c.must(err)
	c.stop(id, 1)
	_, err = c.runtime.ContainerStatus(c.ctx, &cri.ContainerStatusRequest{ContainerId: id})
	c.refused(err, codes.NotFound, "")
	if _, err := os.Stat(filepath.Join(cfg.LogDirectory, "app", "0.log")); err != nil {
		c.t.Errorf("the log goes with the container: %v", err)
	}
}

// commands checks ExecSync, which exec probes and hooks are run by: a command's exit code is an answer, not an error,
// and a timeout is the error DeadlineExceeded.
func commands(c *check) {
	cfg := c.box("a")
	id := c.start(c.create(c.creation(c.sandbox(cfg), cfg, "sleep")))
	run := func(id string, timeout int64, words ...string) (*cri.ExecSyncResponse, error) {
		return c.runtime.ExecSync(c.ctx,
			&cri.ExecSyncRequest{ContainerId: id, Cmd: append([]string{c.host.Program}, words...), Timeout: timeout})
	}
	for _, code := range []int32{0, 3} {
		r, err := run(id, 10, "exit", fmt.Sprint(code))
		c.must(err)
		if r.ExitCode != code {
			c.t.Errorf("exit %d answers %d", code, r.ExitCode)
		}
	}
	_, err := run(id, 1, "sleep")
	c.refused(err, codes.DeadlineExceeded, "")
	_, err = run("absent", 1, "exit", "0")
	c.refused(err, codes.NotFound, "")

	c.stop(id, 10)
	_, err = run(id, 1, "exit", "0")
	c.refused(err, codes.OK, "container is in CONTAINER_EXITED state")
}

// resources checks that a resource that an update leaves at zero stays as it is, and that a running container has
// statistics.
func resources(c *check) {
	cfg := c.box("a")
	r := c.creation(c.sandbox(cfg), cfg, "sleep")
	r.Config.Linux.Resources = &cri.LinuxContainerResources{CpuShares: 100, CpuPeriod: 100000, CpuQuota: 20000,
		MemoryLimitInBytes: 64 << 20}
	id := c.start(c.create(r))
	if l := c.status(id).GetResources().GetLinux(); l.GetCpuShares() != 100 || l.GetCpuQuota() != 20000 ||
		l.GetMemoryLimitInBytes() != 64<<20 {
		c.t.Errorf("made with %+v", l)
	}

	_, err := c.runtime.UpdateContainerResources(c.ctx, &cri.UpdateContainerResourcesRequest{ContainerId: id,
		Linux: &cri.LinuxContainerResources{CpuShares: 200, CpuPeriod: 100000, CpuQuota: 40000}})
	c.must(err)
	if l := c.status(id).GetResources().GetLinux(); l.GetCpuShares() != 200 || l.GetCpuQuota() != 40000 ||
		l.GetMemoryLimitInBytes() != 64<<20 {
		c.t.Errorf("updated to %+v, want the memory limit as it was", l)
	}
	s, err := c.runtime.ContainerStats(c.ctx, &cri.ContainerStatsRequest{ContainerId: id})
	c.must(err)
	if m := s.Stats.GetMemory(); m.GetUsageBytes().GetValue() == 0 && m.GetWorkingSetBytes().GetValue() == 0 {
		c.t.Errorf("it uses no memory: %+v", s)
	}
}
