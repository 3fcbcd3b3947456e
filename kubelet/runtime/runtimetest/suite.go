package runtimetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Host is a runtime that the suite runs against.
type Host struct {
	// Conn speaks CRI.
	Conn grpc.ClientConnInterface
	// Image is present and does what TestProgram says. Program is the path of its program, for commands.
	Image, Program string
	// LogDir is an empty folder; CgroupParent is where cgroups of sandboxes go ("" leaves it to the runtime).
	LogDir, CgroupParent string
}

// Behaviour is one thing that the kubelet relies on.
type Behaviour struct {
	Name string
	Run  func(*testing.T, Host)
}

// Suite returns all behaviours. Each makes and removes its own sandboxes, so that they may share a host.
func Suite() []Behaviour {
	var out []Behaviour
	// Each behaviour has its own time limit and names.
	add := func(name string, run func(*check)) {
		out = append(out, Behaviour{name, func(t *testing.T, h Host) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			t.Cleanup(cancel)
			run(&check{t: t, ctx: ctx, host: h, name: strings.ReplaceAll(name, " ", "-"),
				runtime: cri.NewRuntimeServiceClient(h.Conn), images: cri.NewImageServiceClient(h.Conn)})
		}})
	}

	add("sandbox names are reserved", sandboxNames)
	add("a sandbox that fails frees its name", failedSandbox)
	add("a container needs a ready sandbox", needsSandbox)
	add("a container needs its image", needsImage)
	add("container names are reserved", containerNames)
	add("a container starts once", startsOnce)
	add("a program that does not exist", startError)
	add("exit codes and reasons", exitCodes)
	add("stopping", stopping)
	add("removing", removing)
	add("a sandbox takes its containers along", sandboxEnds)
	add("unknown ids", unknownIDs)
	add("events", events)
	add("events that nobody received", unsentEvents)
	add("commands", commands)
	add("resources", resources)
	add("lists", lists)
	add("absent images", absentImages)
	return out
}

// check is one behaviour being tested.
type check struct {
	t       *testing.T
	ctx     context.Context
	host    Host
	name    string
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
}

// must ends the test at an error of what is only preparation.
func (c *check) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// refused checks that a call failed with a code (codes.OK is any) and a text in its message.
func (c *check) refused(err error, code codes.Code, text string) {
	c.t.Helper()
	if err == nil {
		c.t.Errorf("no error, want %v %q", code, text)
		return
	}
	if got := status.Code(err); code != codes.OK && got != code || !strings.Contains(err.Error(), text) {
		c.t.Errorf("error %v, want %v with %q", err, code, text)
	}
}

// until waits for a condition.
func (c *check) until(what string, met func() bool) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !met() {
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("after 30 s: no %s", what)
		}
	}
}

// box is the configuration of a sandbox; uid is its name too.
func (c *check) box(uid string) *cri.PodSandboxConfig {
	uid = c.name + "-" + uid
	dir := filepath.Join(c.host.LogDir, uid)
	c.must(os.MkdirAll(filepath.Join(dir, "app"), 0o755))
	cfg := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: uid, Namespace: "suite", Uid: uid},
		LogDirectory: dir,
		Labels:       map[string]string{labelPodUID: uid},
		Linux:        &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{}}}
	if c.host.CgroupParent != "" {
		cfg.Linux.CgroupParent = c.host.CgroupParent + "/" + uid
	}
	return cfg
}

// sandbox makes a sandbox that the end of the test removes.
func (c *check) sandbox(cfg *cri.PodSandboxConfig) string {
	c.t.Helper()
	r, err := c.runtime.RunPodSandbox(c.ctx, &cri.RunPodSandboxRequest{Config: cfg})
	c.must(err)
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := c.runtime.RemovePodSandbox(ctx,
			&cri.RemovePodSandboxRequest{PodSandboxId: r.PodSandboxId}); err != nil {
			c.t.Errorf("removing the sandbox: %v", err)
		}
	})
	return r.PodSandboxId
}

// creation is a request for the container "app" in a sandbox.
func (c *check) creation(id string, cfg *cri.PodSandboxConfig, args ...string) *cri.CreateContainerRequest {
	return &cri.CreateContainerRequest{PodSandboxId: id, SandboxConfig: cfg, Config: &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: c.host.Image}, Args: args,
		LogPath: "app/0.log",
		Labels:  map[string]string{labelPodUID: cfg.Metadata.Uid},
		Linux:   &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{}}}}
}

// create, start, stop and status make one call each, which must succeed.
func (c *check) create(r *cri.CreateContainerRequest) string {
	c.t.Helper()
	made, err := c.runtime.CreateContainer(c.ctx, r)
	c.must(err)
	return made.ContainerId
}

func (c *check) start(id string) string {
	c.t.Helper()
	_, err := c.runtime.StartContainer(c.ctx, &cri.StartContainerRequest{ContainerId: id})
	c.must(err)
	return id
}

func (c *check) stop(id string, seconds int64) {
	c.t.Helper()
	_, err := c.runtime.StopContainer(c.ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: seconds})
	c.must(err)
}

func (c *check) status(id string) *cri.ContainerStatus {
	c.t.Helper()
	r, err := c.runtime.ContainerStatus(c.ctx, &cri.ContainerStatusRequest{ContainerId: id})
	c.must(err)
	return r.Status
}

// exited waits for the end of a container.
func (c *check) exited(id string) *cri.ContainerStatus {
	c.t.Helper()
	c.until("end of the container", func() bool { return c.status(id).State == cri.ContainerState_CONTAINER_EXITED })
	return c.status(id)
}
