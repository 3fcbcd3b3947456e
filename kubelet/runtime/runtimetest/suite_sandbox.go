package runtimetest

import (
	"google.golang.org/grpc/codes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxNames checks that a name is free again after another attempt's number or a removal.
func sandboxNames(c *check) {
	cfg := c.box("a")
	id := c.sandbox(cfg)
	_, err := c.runtime.RunPodSandbox(c.ctx, &cri.RunPodSandboxRequest{Config: cfg})
	c.refused(err, codes.OK, `is reserved for "`+id+`"`)

	next := c.box("a")
	next.Metadata.Attempt = 1
	c.sandbox(next)

	_, err = c.runtime.RemovePodSandbox(c.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	c.must(err)
	c.sandbox(cfg)
}

// failedSandbox checks that a sandbox that cannot be run leaves nothing behind.
func failedSandbox(c *check) {
	cfg := c.box("a")
	_, err := c.runtime.RunPodSandbox(c.ctx, &cri.RunPodSandboxRequest{Config: cfg, RuntimeHandler: "absent"})
	c.refused(err, codes.OK, `no runtime for "absent" is configured`)
	c.sandbox(cfg)
}

// needsSandbox checks that a container can be created and started in a ready sandbox only, and how the runtime says
// no: the kubelet makes a new sandbox if the old one is gone.
func needsSandbox(c *check) {
	cfg := c.box("a")
	_, err := c.runtime.CreateContainer(c.ctx, c.creation("absent", cfg, "sleep"))
	c.refused(err, codes.NotFound, "failed to find sandbox id")

	id := c.sandbox(cfg)
	made := c.create(c.creation(id, cfg, "sleep"))
	_, err = c.runtime.StopPodSandbox(c.ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	c.must(err)
	again := c.creation(id, cfg, "sleep")
	again.Config.Metadata.Attempt = 1
	_, err = c.runtime.CreateContainer(c.ctx, again)
	c.refused(err, codes.OK, "is not running")
	_, err = c.runtime.StartContainer(c.ctx, &cri.StartContainerRequest{ContainerId: made})
	c.refused(err, codes.OK, "is not running")
}

// sandboxEnds checks that stopping a sandbox kills its containers and gives up its address, that removing it removes
// them, and that both may be repeated.
func sandboxEnds(c *check) {
	cfg := c.box("a")
	box := c.sandbox(cfg)
	id := c.start(c.create(c.creation(box, cfg, "sleep")))
	before, err := c.runtime.PodSandboxStatus(c.ctx, &cri.PodSandboxStatusRequest{PodSandboxId: box})
	c.must(err)
	if s := before.Status; s.State != cri.PodSandboxState_SANDBOX_READY || s.Network.Ip == "" ||
		s.Metadata.Uid != cfg.Metadata.Uid || s.CreatedAt == 0 {
		c.t.Errorf("a ready sandbox: %+v", s)
	}

	// A stopped sandbox is still known, without an address.
	stop := &cri.StopPodSandboxRequest{PodSandboxId: box}
	_, err = c.runtime.StopPodSandbox(c.ctx, stop)
	c.must(err)
	if s := c.exited(id); s.ExitCode != killed {
		c.t.Errorf("the container of a stopped sandbox: %+v", s)
	}
	after, err := c.runtime.PodSandboxStatus(c.ctx, &cri.PodSandboxStatusRequest{PodSandboxId: box})
	c.must(err)
	if s := after.Status; s.State != cri.PodSandboxState_SANDBOX_NOTREADY || s.Network.GetIp() != "" {
		c.t.Errorf("a stopped sandbox: %+v", s)
	}
	_, err = c.runtime.StopPodSandbox(c.ctx, stop)
	c.must(err)

	_, err = c.runtime.RemovePodSandbox(c.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: box})
	c.must(err)
	_, err = c.runtime.ContainerStatus(c.ctx, &cri.ContainerStatusRequest{ContainerId: id})
	c.refused(err, codes.NotFound, "")
	_, err = c.runtime.PodSandboxStatus(c.ctx, &cri.PodSandboxStatusRequest{PodSandboxId: box})
	c.refused(err, codes.NotFound, "")
}

// unknownIDs checks how calls about something that does not exist are answered. The kubelet repeats calls whose answer
// it did not get, so stopping and removing must succeed; the others must say NotFound.
func unknownIDs(c *check) {
	_, err := c.runtime.StopPodSandbox(c.ctx, &cri.StopPodSandboxRequest{PodSandboxId: "absent"})
	c.must(err)
	_, err = c.runtime.RemovePodSandbox(c.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: "absent"})
	c.must(err)
	_, err = c.runtime.RemoveContainer(c.ctx, &cri.RemoveContainerRequest{ContainerId: "absent"})
	c.must(err)
	c.stop("absent", 1)

	_, err = c.runtime.StartContainer(c.ctx, &cri.StartContainerRequest{ContainerId: "absent"})
	c.refused(err, codes.NotFound, "")
	_, err = c.runtime.UpdateContainerResources(c.ctx,
		&cri.UpdateContainerResourcesRequest{ContainerId: "absent", Linux: &cri.LinuxContainerResources{}})
	c.refused(err, codes.NotFound, "")
	_, err = c.runtime.ContainerStats(c.ctx, &cri.ContainerStatsRequest{ContainerId: "absent"})
	c.refused(err, codes.NotFound, "")
	_, err = c.runtime.ReopenContainerLog(c.ctx, &cri.ReopenContainerLogRequest{ContainerId: "absent"})
	c.refused(err, codes.NotFound, "")
}
