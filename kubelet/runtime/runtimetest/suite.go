package runtimetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	cfg := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: uid, Namespace: "suite", Uid: uid}, LogDirectory: dir,
		Labels: map[string]string{labelPodUID: uid}, Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{}}}
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
		if _, err := c.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: r.PodSandboxId}); err != nil {
			c.t.Errorf("removing the sandbox: %v", err)
		}
	})
	return r.PodSandboxId
}

// creation is a request for the container "app" in a sandbox.
func (c *check) creation(id string, cfg *cri.PodSandboxConfig, args ...string) *cri.CreateContainerRequest {
	return &cri.CreateContainerRequest{PodSandboxId: id, SandboxConfig: cfg, Config: &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: c.host.Image}, Args: args, LogPath: "app/0.log",
		Labels: map[string]string{labelPodUID: cfg.Metadata.Uid}, Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{}}}}
}

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

func failedSandbox(c *check) {
	cfg := c.box("a")
	_, err := c.runtime.RunPodSandbox(c.ctx, &cri.RunPodSandboxRequest{Config: cfg, RuntimeHandler: "absent"})
	c.refused(err, codes.OK, `no runtime for "absent" is configured`)
	c.sandbox(cfg)
}

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

func needsImage(c *check) {
	cfg := c.box("a")
	r := c.creation(c.sandbox(cfg), cfg, "sleep")
	r.Config.Image.Image = "testkit.local/absent:1"
	_, err := c.runtime.CreateContainer(c.ctx, r)
	c.refused(err, codes.NotFound, `failed to resolve image "testkit.local/absent:1"`)

	r.Config.Image.Image = c.host.Image
	c.create(r) // the name is free
}

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

func startsOnce(c *check) {
	cfg := c.box("a")
	id := c.create(c.creation(c.sandbox(cfg), cfg, "sleep"))
	if s := c.status(id); s.State != cri.ContainerState_CONTAINER_CREATED || s.StartedAt != 0 || s.FinishedAt != 0 || s.CreatedAt == 0 {
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

func startError(c *check) {
	cfg := c.box("a")
	r := c.creation(c.sandbox(cfg), cfg)
	r.Config.Command = []string{"nothing"}
	id := c.create(r)
	_, err := c.runtime.StartContainer(c.ctx, &cri.StartContainerRequest{ContainerId: id})
	c.refused(err, codes.OK, `exec: "nothing": executable file not found in $PATH`)
	s := c.status(id)
	if s.State != cri.ContainerState_CONTAINER_EXITED || s.ExitCode != notBegun || s.Reason != "StartError" || s.StartedAt != 0 || s.FinishedAt == 0 ||
		!strings.Contains(s.Message, "executable file not found") {
		c.t.Errorf("a container that could not be started: %+v", s)
	}
}

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
		if s.ExitCode != want.code || s.Reason != want.reason || s.StartedAt == 0 || s.FinishedAt < s.CreatedAt || s.Metadata.Attempt != uint32(i) ||
			s.LogPath != filepath.Join(cfg.LogDirectory, "app", "0.log") {
			c.t.Errorf("%v ended as %+v", want.args, s)
		}
	}
}

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

func sandboxEnds(c *check) {
	cfg := c.box("a")
	box := c.sandbox(cfg)
	id := c.start(c.create(c.creation(box, cfg, "sleep")))
	before, err := c.runtime.PodSandboxStatus(c.ctx, &cri.PodSandboxStatusRequest{PodSandboxId: box})
	c.must(err)
	if s := before.Status; s.State != cri.PodSandboxState_SANDBOX_READY || s.Network.Ip == "" || s.Metadata.Uid != cfg.Metadata.Uid || s.CreatedAt == 0 {
		c.t.Errorf("a ready sandbox: %+v", s)
	}

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
	_, err = c.runtime.UpdateContainerResources(c.ctx, &cri.UpdateContainerResourcesRequest{ContainerId: "absent", Linux: &cri.LinuxContainerResources{}})
	c.refused(err, codes.NotFound, "")
	_, err = c.runtime.ContainerStats(c.ctx, &cri.ContainerStatsRequest{ContainerId: "absent"})
	c.refused(err, codes.NotFound, "")
	_, err = c.runtime.ReopenContainerLog(c.ctx, &cri.ReopenContainerLogRequest{ContainerId: "absent"})
	c.refused(err, codes.NotFound, "")
}

// heard collects the events about one pod, as "STARTED container" lines.
type heard struct {
	c     *check
	uid   string
	names map[string]string
	next  chan *cri.ContainerEventResponse
}

// listen subscribes to events until the end of the test or until stop is called.
func (c *check) listen(uid string) (h *heard, stop func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	stream, err := c.runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	c.must(err)
	h = &heard{c: c, uid: uid, names: map[string]string{}, next: make(chan *cri.ContainerEventResponse, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case h.next <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	stop = func() { cancel(); <-done }
	c.t.Cleanup(stop)
	return h, stop
}

// one waits for the next event about something that has a name.
func (h *heard) one(want string) (string, *cri.ContainerEventResponse) {
	h.c.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-h.next:
			if name := h.names[e.ContainerId]; name != "" {
				return strings.TrimSuffix(strings.TrimPrefix(e.ContainerEventType.String(), "CONTAINER_"), "_EVENT") + " " + name, e
			}
		case <-deadline:
			h.c.t.Fatalf("no event %s", want)
		}
	}
}

// expect waits for exactly these events and returns the last one.
func (h *heard) expect(want ...string) (last *cri.ContainerEventResponse) {
	h.c.t.Helper()
	for _, w := range want {
		var got string
		if got, last = h.one(w); got != w {
			h.c.t.Errorf("event %s, want %s", got, w)
		}
	}
	return last
}

// seek waits for an event, whatever comes before it.
func (h *heard) seek(want string) {
	h.c.t.Helper()
	for got := ""; got != want; {
		got, _ = h.one(want)
	}
}

func events(c *check) {
	cfg := c.box("a")
	h, _ := c.listen(cfg.Metadata.Uid)
	box := c.sandbox(cfg)
	h.names[box] = "sandbox"
	if e := h.expect("CREATED sandbox", "STARTED sandbox"); e.PodSandboxStatus.GetMetadata().GetUid() != h.uid || len(e.ContainersStatuses) != 0 {
		c.t.Errorf("the sandbox's event: %+v", e)
	}

	id := c.create(c.creation(box, cfg, "sleep"))
	h.names[id] = "app"
	c.start(id)
	if e := h.expect("CREATED app", "STARTED app"); len(e.ContainersStatuses) != 1 || e.ContainersStatuses[0].State != cri.ContainerState_CONTAINER_RUNNING {
		c.t.Errorf("the event of a start: %+v", e)
	}
	c.stop(id, 10)
	if e := h.expect("STOPPED app"); len(e.ContainersStatuses) != 1 || e.ContainersStatuses[0].State != cri.ContainerState_CONTAINER_EXITED ||
		e.PodSandboxStatus.GetState() != cri.PodSandboxState_SANDBOX_READY {
		c.t.Errorf("the event of an end: %+v", e)
	}
	_, err := c.runtime.RemoveContainer(c.ctx, &cri.RemoveContainerRequest{ContainerId: id})
	c.must(err)
	if e := h.expect("DELETED app"); len(e.ContainersStatuses) != 0 || e.PodSandboxStatus.GetId() != box {
		c.t.Errorf("the event of a removal: %+v", e)
	}

	_, err = c.runtime.StopPodSandbox(c.ctx, &cri.StopPodSandboxRequest{PodSandboxId: box})
	c.must(err)
	if e := h.expect("STOPPED sandbox"); e.PodSandboxStatus.GetState() != cri.PodSandboxState_SANDBOX_NOTREADY {
		c.t.Errorf("the event of a sandbox's end: %+v", e)
	}
	_, err = c.runtime.RemovePodSandbox(c.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: box})
	c.must(err)
	h.expect("DELETED sandbox")
}

// unsentEvents: what happens while nobody listens is delivered later or lost. containerd keeps it for the next subscriber, but only
// once it has noticed that the last one went away, and it notices that by an event that it could not send. A new subscriber
// learns of what happens from then on.
func unsentEvents(c *check) {
	cfg := c.box("a")
	h, stop := c.listen(cfg.Metadata.Uid)
	box := c.sandbox(cfg)
	h.names[box] = "sandbox"
	h.expect("CREATED sandbox", "STARTED sandbox")
	stop()

	run := func(attempt uint32) (id string) {
		r := c.creation(box, cfg, "sleep")
		r.Config.Metadata.Attempt = attempt
		id = c.start(c.create(r))
		c.stop(id, 10)
		return id
	}
	run(0)
	h, _ = c.listen(cfg.Metadata.Uid)

	// The end of an earlier container may still go to the subscriber that went away. That of the last one cannot.
	run(1)
	id := run(2)
	h.names[id] = "app"
	_, err := c.runtime.RemoveContainer(c.ctx, &cri.RemoveContainerRequest{ContainerId: id})
	c.must(err)
	h.seek("DELETED app")
}

func commands(c *check) {
	cfg := c.box("a")
	id := c.start(c.create(c.creation(c.sandbox(cfg), cfg, "sleep")))
	run := func(id string, timeout int64, words ...string) (*cri.ExecSyncResponse, error) {
		return c.runtime.ExecSync(c.ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: append([]string{c.host.Program}, words...), Timeout: timeout})
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

func resources(c *check) {
	cfg := c.box("a")
	r := c.creation(c.sandbox(cfg), cfg, "sleep")
	r.Config.Linux.Resources = &cri.LinuxContainerResources{CpuShares: 100, CpuPeriod: 100000, CpuQuota: 20000, MemoryLimitInBytes: 64 << 20}
	id := c.start(c.create(r))
	if l := c.status(id).GetResources().GetLinux(); l.GetCpuShares() != 100 || l.GetCpuQuota() != 20000 || l.GetMemoryLimitInBytes() != 64<<20 {
		c.t.Errorf("made with %+v", l)
	}

	_, err := c.runtime.UpdateContainerResources(c.ctx, &cri.UpdateContainerResourcesRequest{ContainerId: id,
		Linux: &cri.LinuxContainerResources{CpuShares: 200, CpuPeriod: 100000, CpuQuota: 40000}})
	c.must(err)
	if l := c.status(id).GetResources().GetLinux(); l.GetCpuShares() != 200 || l.GetCpuQuota() != 40000 || l.GetMemoryLimitInBytes() != 64<<20 {
		c.t.Errorf("updated to %+v, want the memory limit as it was", l)
	}
	s, err := c.runtime.ContainerStats(c.ctx, &cri.ContainerStatsRequest{ContainerId: id})
	c.must(err)
	if m := s.Stats.GetMemory(); m.GetUsageBytes().GetValue() == 0 && m.GetWorkingSetBytes().GetValue() == 0 {
		c.t.Errorf("it uses no memory: %+v", s)
	}
}

func lists(c *check) {
	one, two := c.box("a"), c.box("b")
	first, second := c.sandbox(one), c.sandbox(two)
	app := c.start(c.create(c.creation(first, one, "sleep")))
	other := c.create(c.creation(second, two, "sleep"))
	for _, want := range []struct {
		filter *cri.ContainerFilter
		ids    []string
	}{
		{&cri.ContainerFilter{PodSandboxId: first}, []string{app}},
		{&cri.ContainerFilter{LabelSelector: map[string]string{labelPodUID: two.Metadata.Uid}}, []string{other}},
		{&cri.ContainerFilter{Id: app, State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_CREATED}}, nil},
		{&cri.ContainerFilter{LabelSelector: map[string]string{labelPodUID: "absent"}}, nil},
	} {
		r, err := c.runtime.ListContainers(c.ctx, &cri.ListContainersRequest{Filter: want.filter})
		c.must(err)
		var got []string
		for _, x := range r.Containers {
			got = append(got, x.Id)
		}
		if !slices.Equal(got, want.ids) {
			c.t.Errorf("%v lists %v, want %v", want.filter, got, want.ids)
		}
	}

	_, err := c.runtime.StopPodSandbox(c.ctx, &cri.StopPodSandboxRequest{PodSandboxId: second})
	c.must(err)
	r, err := c.runtime.ListPodSandbox(c.ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_NOTREADY}, LabelSelector: map[string]string{labelPodUID: two.Metadata.Uid}}})
	c.must(err)
	if len(r.Items) != 1 || r.Items[0].Id != second || r.Items[0].Labels[labelPodUID] != two.Metadata.Uid {
		c.t.Errorf("sandboxes that are not ready: %v", r.Items)
	}
}

func absentImages(c *check) {
	absent := &cri.ImageSpec{Image: "testkit.local/absent:1"}
	r, err := c.images.ImageStatus(c.ctx, &cri.ImageStatusRequest{Image: absent})
	c.must(err)
	if r.Image != nil {
		c.t.Errorf("an absent image: %v", r.Image)
	}
	_, err = c.images.RemoveImage(c.ctx, &cri.RemoveImageRequest{Image: absent})
	c.must(err)

	r, err = c.images.ImageStatus(c.ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: c.host.Image}})
	c.must(err)
	if r.Image == nil || r.Image.Size == 0 || !slices.Contains(r.Image.RepoTags, c.host.Image) {
		c.t.Errorf("a present image: %v", r.Image)
	}
}
