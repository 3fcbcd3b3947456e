package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// aWhile is how long a container must have run so that containerd.exe sees its end at once: one that ends earlier is
// seen to have ended 5 s after its start (docs/windows-facts.md).
const aWhile = 6 * time.Second

// windowsEnds measures the time from the DELETE of a pod until it is gone. Its grace period is long, and its program
// ends when it is told to.
func windowsEnds(ctx context.Context, s *windowsSide) error {
	r, err := s.windowsPods.start(ctx, 1, func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = nil })
	if err != nil {
		return err
	}
	if err := pause(ctx, aWhile); err != nil {
		return err
	}
	took, err := s.end(ctx, r)
	s.add("end", took)
	return err
}

// bareWindowsEnds is windowsEnds by the calls alone.
func bareWindowsEnds(ctx context.Context, s *windowsSide) error {
	p := s.bare()
	defer func() { _ = p.remove(context.WithoutCancel(ctx)) }()
	if err := p.start(ctx); err != nil {
		return err
	}
	if err := pause(ctx, aWhile); err != nil {
		return err
	}
	began := time.Now()
	err := p.stop(ctx, 30)
	s.add("end", time.Since(began).Seconds())
	return err
}

// windowsCrashes kills the program of a new pod and measures the time until the API shows the next container as
// running.
func windowsCrashes(ctx context.Context, s *windowsSide) error {
	r, err := s.windowsPods.start(ctx, 1, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, aWhile); err != nil {
		return err
	}
	began, err := s.kill()
	if err != nil {
		return err
	}

	limited, cancel := context.WithTimeout(ctx, patience(1))
	defer cancel()
	at, err := r.seen.wait(limited, "to run again", r.names[0], runsAgain)
	if err != nil {
		return err
	}
	s.add("crash", at.Sub(began).Seconds())
	_, err = s.end(ctx, r)
	return err
}

// runsAgain is for watcher.wait, after the container's first restart.
func runsAgain(p *v1.Pod) bool {
	return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0 &&
		p.Status.ContainerStatuses[0].State.Running != nil
}

// bareWindowsCrashes starts a container again as soon as the runtime's event says that the one before it has ended.
func bareWindowsCrashes(ctx context.Context, s *windowsSide) error {
	ctx, cancel := context.WithTimeout(ctx, patience(1))
	defer cancel()
	p := s.bare()
	defer func() {
		ctx := context.WithoutCancel(ctx)
		_ = p.stop(ctx, 0)
		_ = p.remove(ctx)
	}()
	if err := p.start(ctx); err != nil {
		return err
	}
	events, err := s.runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	if err != nil {
		return err
	}
	if err := pause(ctx, aWhile); err != nil {
		return err
	}
	began, err := s.kill()
	if err != nil {
		return err
	}

	for {
		e, err := events.Recv()
		if err != nil {
			return fmt.Errorf("the runtime's events ended before that of the container's end: %w", err)
		}
		if e.ContainerId == p.container && e.ContainerEventType == cri.ContainerEventType_CONTAINER_STOPPED_EVENT {
			break
		}
	}
	err = p.run(ctx, 1)
	s.add("crash", time.Since(began).Seconds())
	return err
}

// kill ends the program of the one container that runs on the host.
// It returns the moment just before the signal. More than one program is an error: the wrong one
// could be killed.
func (s *windowsSide) kill() (time.Time, error) {
	pids, err := programsOf(s.host, "testapp.exe")
	if err != nil {
		return time.Time{}, err
	}
	if len(pids) != 1 {
		return time.Time{}, fmt.Errorf("%d programs of pods run, want one", len(pids))
	}
	return time.Now(), syscall.Kill(pids[0], syscall.SIGKILL)
}

const windowsIdlePods = 10

// windowsIdles measures what a kubelet uses while nothing happens to its pods.
func windowsIdles(ctx context.Context, s *windowsSide) error {
	r, err := s.windowsPods.start(ctx, windowsIdlePods, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}
	used, all, err := s.spent()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, idleWindow); err != nil {
		return err
	}
	usedThen, allThen, err := s.spent()
	if err != nil {
		return err
	}

	passed := time.Since(began).Seconds()
	s.add("idle-cpu", (usedThen-used)/passed)
	s.add("idle-cpu-all", (allThen-all)/passed)
	s.add("idle-pss", proportionalMB(s.kubelet.PID()))
	_, err = s.end(ctx, r)
	return err
}

// spent is the processor time of the kubelet so far, and that of the whole host, in seconds.
// The kubelet's is 0 once it has ended.
func (s *windowsSide) spent() (kubelet, all float64, err error) {
	_, total, err := hostUse(s.host)
	if err != nil {
		return 0, 0, err
	}
	stats, err := processStats()
	return stats[s.kubelet.PID()].cpu, total.CPU, err
}
