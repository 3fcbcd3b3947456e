package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
)

// barePod is a pod that is made by the calls that every kubelet must make, and nothing else.
// started and stopped are zero until the calls were answered; sandbox and container are empty until
// made.
type barePod struct {
	s                  *side
	config             *cri.PodSandboxConfig
	sandbox, container string
	started, stopped   time.Time
}

// bareBatch makes n pods at once and ends them, as a kubelet with batch.end; between the two it calls ready. The times
// are those of each, of all, and of the end, in seconds.
func (s *side) bareBatch(ctx context.Context, n int, ready func() error) (each []float64, all float64, end ending,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience(n))
	defer cancel()
	pods := make([]*barePod, n)
	for i := range pods {
		pods[i] = s.barePod()
	}
	began := time.Now()
	err = together(pods, func(p *barePod) error { return p.start(ctx) })
	for _, p := range pods {
		each = append(each, p.started.Sub(began).Seconds())
	}
	all = slices.Max(each)

	// A failed start leaves started at zero, and all pods are stopped whatever happened, so that
	// the runtime is empty for the next sample.
	if err == nil {
		err = ready()
	}
	began = time.Now()
	err = errors.Join(err, together(pods, func(p *barePod) error { return errors.Join(p.stop(ctx, 1), p.remove(ctx)) }))
	end.removed = time.Since(began).Seconds()
	for _, p := range pods {
		end.stopped = max(end.stopped, p.stopped.Sub(began).Seconds())
	}
	return each, all, end, err
}

// together does the same with all pods at once.
func together(pods []*barePod, do func(*barePod) error) error {
	errs := make([]error, len(pods))
	var all sync.WaitGroup
	for i, p := range pods {
		all.Go(func() { errs[i] = do(p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// barePod has the configuration that a kubelet would give a pod of QoS class BestEffort, so that
// the runtime does the same work: a cgroup of its own, a log folder and a resolv.conf.
func (s *side) barePod() *barePod {
	name := s.pod()
	return &barePod{s: s, config: &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: name},
		Hostname:     name,
		LogDirectory: s.w.Path("log", "floor", name),
		DnsConfig:    &cri.DNSConfig{Servers: []string{"10.96.0.10"}},
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: s.w.CgroupRoot() + "/kubepods/besteffort/" + name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{Seccomp: s.seccomp}},
	}}
}

// floorProfile is the seccomp profile of the floor's sandboxes: the runtime's own, as upstream's kubelet has it, or a
// file, such as the one that ours has.
func (o options) floorProfile() *cri.SecurityProfile {
	if o.floorSeccomp == "" {
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: o.floorSeccomp}
}

// start makes the log folder, which is a kubelet's duty, and then the sandbox and its container.
func (p *barePod) start(ctx context.Context) error {
	if err := os.MkdirAll(p.config.LogDirectory+"/app", 0o755); err != nil {
		return err
	}
	box, err := p.s.w.Runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return fmt.Errorf("running a sandbox: %w", err)
	}
	p.sandbox = box.PodSandboxId
	err = p.run(ctx, 0)
	p.started = time.Now()
	return err
}

// run makes and starts the pod's container.
func (p *barePod) run(ctx context.Context, attempt uint32) error {
	made, err := p.s.w.Runtime.CreateContainer(ctx,
		&cri.CreateContainerRequest{PodSandboxId: p.sandbox, SandboxConfig: p.config,
			Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "app", Attempt: attempt},
				Image: &cri.ImageSpec{Image: testkit.TestImage},
				Args:  []string{"sleep"}, LogPath: fmt.Sprintf("app/%d.log", attempt),
				Linux: &cri.LinuxContainerConfig{}}})
	if err != nil {
		return fmt.Errorf("creating a container: %w", err)
	}
	p.container = made.ContainerId
	if _, err := p.s.w.Runtime.StartContainer(ctx,
		&cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return fmt.Errorf("starting a container: %w", err)
	}
	if _, err := p.s.w.Runtime.ContainerStatus(ctx,
		&cri.ContainerStatusRequest{ContainerId: made.ContainerId}); err != nil {
		return fmt.Errorf("reading a container's status: %w", err)
	}
	return nil
}

// stop ends the pod; grace is in seconds.
func (p *barePod) stop(ctx context.Context, grace int64) error {
	if p.sandbox == "" {
		return nil
	}
	var stopErr error
	if p.container != "" {
		_, stopErr = p.s.w.Runtime.StopContainer(ctx,
			&cri.StopContainerRequest{ContainerId: p.container, Timeout: grace})
	}
	_, err := p.s.w.Runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.sandbox})
	p.stopped = time.Now()
	return errors.Join(stopErr, err)
}

// remove removes the stopped sandbox, and its containers with it.
func (p *barePod) remove(ctx context.Context) error {
	if p.sandbox == "" {
		return nil
	}
	_, err := p.s.w.Runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	return err
}

// bareEnds is the end of a pod by the calls alone.
func bareEnds(ctx context.Context, s *side, rounds int) error {
	for range rounds {
		// The program is given time to handle TERM before the clock starts, as in ends.
		p := s.barePod()
		err := p.start(ctx)
		if err == nil {
			err = s.hears(ctx)
		}
		began := time.Now()
		err = errors.Join(err, p.stop(ctx, 30))
		s.add("end", time.Since(began).Seconds())
		if err := errors.Join(err, p.remove(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// bareCrashes starts a container again as soon as the runtime says that the one before it has ended.
func bareCrashes(ctx context.Context, s *side, rounds int) error {
	for range rounds {
		p := s.barePod()
		if err := errors.Join(p.crash(ctx), p.stop(ctx, 1), p.remove(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// eventBacklog holds what a stream of events may begin with: containerd keeps for a while what nobody reads, and does
// nothing else while a reader that it has does not read.
const eventBacklog = 1 << 16

// crash measures what the runtime alone takes from the end of a container until the next one runs. It follows the
// runtime's events as a kubelet must, because a kubelet learns of the end only by them.
func (p *barePod) crash(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience(1))
	defer cancel()
	stream, err := p.s.w.Runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	if err != nil {
		return err
	}
	events := make(chan *cri.ContainerEventResponse, eventBacklog)

	go func() {
		defer close(events)
		for e, err := stream.Recv(); err == nil; e, err = stream.Recv() {
			events <- e
		}
	}()
	// await reads events until the one that is wanted. Those of other containers are dropped.
	await := func(kind cri.ContainerEventType) error {
		for e := range events {
			if e.ContainerId == p.container && e.ContainerEventType == kind {
				return nil
			}
		}
		return fmt.Errorf("the runtime's events ended before %s", kind)
	}

	if err := p.start(ctx); err != nil {
		return err
	}
	if err := await(cri.ContainerEventType_CONTAINER_STARTED_EVENT); err != nil {
		return err
	}
	began, err := p.s.crash(ctx, p.container)
	if err == nil {
		err = await(cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}

	if err != nil {
		return err
	}
	err = p.run(ctx, 1)
	p.s.add("crash", time.Since(began).Seconds())
	return err
}
