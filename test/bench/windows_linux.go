package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/internal/testkit/winhost"
)

const (
	windowsBuild = "20348"
	windowsLimit = 25 * time.Minute // for the whole group
)

// windowsPart is something that is measured with each side in turn, as a kubeletPart.
// Its own measure and floor hide those of the embedded part, which are nil.
type windowsPart struct {
	kubeletPart
	measure func(context.Context, *windowsSide) error
	floor   func(context.Context, *windowsSide) error
}

// windowsParts are the parts, with as many rounds as those of Linux.
func windowsParts(rounds int) []windowsPart {
	return []windowsPart{
		windowsStart("start", 1, rounds, ofFloor(1, 0.1)),
		windowsStart("ten", 10, max(1, rounds/3), ofFloor(1.15, 0)),
		windowsStart("thirty", 30, max(1, rounds/4), ofFloor(1.15, 0)),
		{kubeletPart: kubeletPart{name: "end", rounds: max(1, rounds/2),
			lines: []line{{key: "end", name: "windows-delete-to-gone", unit: "s", target: ofPeer(1),
				note: "a container that has run for 6 s and ends when Windows tells it to shut down; floor: StopContainer, StopPodSandbox"}}},
			measure: windowsEnds, floor: bareWindowsEnds},
		{kubeletPart: kubeletPart{name: "crash", rounds: max(1, rounds/2),
			lines: []line{{key: "crash", name: "windows-crash-to-restarted", unit: "s", target: ofPeer(1),
				note: "the program of a container that has run for 6 s is killed: until the API says that the next one runs; floor: the runtime's event, CreateContainer, StartContainer, ContainerStatus"}}},
			measure: windowsCrashes, floor: bareWindowsCrashes},
		{kubeletPart: kubeletPart{name: "idle", lines: []line{
			{key: "idle-cpu", name: "windows-idle-10-cpu", unit: "CPUs", target: ofPeer(1. / 3),
				note: "of kubelet.exe while nothing happens to 10 pods"},
			{key: "idle-cpu-all", name: "windows-idle-10-cpu-of-the-host", unit: "CPUs",
				note: "of all processes of the host, those of the pods and the control plane among them"},
			{key: "idle-pss", name: "windows-idle-10-memory", unit: "MB", target: ofPeer(1),
				note: "proportional set size of kubelet.exe"}}},
			measure: windowsIdles},
		{kubeletPart: kubeletPart{name: "crowd", lines: []line{
			{key: "crowd-ready", name: fmt.Sprintf("windows-bind-to-ready-%d-at-once", windowsCrowd), unit: "s"},
			{key: "crowd-stats", name: fmt.Sprintf("windows-%d-pods-stats-summary", windowsCrowd), unit: "s",
				target: fixed(0.25), note: "through the API server"}}},
			measure: windowsSummaries},
	}
}

// windowsSide is one of those that are compared, while its kubelet runs.
// kubelet is nil for the floor.
type windowsSide struct {
	*windowsPods
	name    string
	host    *winhost.Host
	kubelet *winhost.Process
	samples samples
}

func (s *windowsSide) add(key string, values ...float64) { s.samples.add(key, s.name, values...) }

// benchWindows measures our kubelet.exe and upstream's, one after the other on one emulated host with containerd.exe,
// and the calls of containerd.exe that both must make.
func benchWindows(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, windowsLimit)
	defer cancel()
	var parts []windowsPart
	for _, p := range windowsParts(o.rounds) {
		if named(o.windows, p.name) {
			parts = append(parts, p)
		}
	}
	// Names are checked before a host is made.
	for _, name := range strings.Split(o.sides, ",") {
		if !slices.Contains([]string{bare, ours, peer}, name) {
			return fmt.Errorf("--sides: no side %q", name)
		}
	}

	h, remove, err := windowsHost(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := h.StartControlPlane(ctx, namespace); err != nil {
		return err
	}
	found := samples{}
	defer func() { // what was measured, if the run is cut short too
		for _, p := range parts {
			p.print(found, calls{})
		}
	}()

	for pass := range o.passes {
		for _, name := range strings.Split(o.sides, ",") {
			// Each pass has its own range of serial numbers: names are not used twice on one host.
			s := &windowsSide{name: name, host: h, samples: found,
				windowsPods: &windowsPods{api: h.Client.CoreV1().Pods(namespace), runtime: h.Runtime,
					node: name, driveC: h.DriveC(), lazy: name == peer, serial: pass * 10000}}
			if err := s.pass(ctx, parts, pass, o.passes); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, h.KubeletLog(name))
			}
		}
	}
	return nil
}

// windowsHost makes a host with containerd.exe, on which pods can run, and returns what removes it.
func windowsHost(ctx context.Context, o options) (h *winhost.Host, remove func() error, err error) {
	dir, own := o.dir, o.dir == ""
	if own {
		if dir, err = os.MkdirTemp("/var/lib", "porthole-bench-"); err != nil {
			return nil, nil, err
		}
	}
	say("windows: making a host")
	made := winhost.Host{Porthole: filepath.Join(o.bin, "porthole"), Dir: dir,
		Name: fmt.Sprintf("bench%d", os.Getpid())}
	h, err = winhost.Create(ctx, made, windowsBuild)
	// remove is used here too when a step fails; h is nil if the host was not made.
	remove = func() (err error) {
		if h != nil {
			err = h.Delete()
		}
		if own {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	}
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}

	for _, step := range []func(context.Context) error{h.ConnectRuntime, h.ServeImages, h.JoinNetwork} {
		if err := step(ctx); err != nil {
			return nil, nil, errors.Join(err, remove())
		}
	}
	return h, remove, nil
}

// pass does one pass over all parts with one side.
func (s *windowsSide) pass(ctx context.Context, parts []windowsPart, pass, passes int) error {
	if s.name != bare {
		k, err := s.host.StartKubelet(ctx, s.name)
		if err != nil {
			return err
		}
		defer k.Kill()
		s.kubelet = k
	}
	if err := s.warm(ctx); err != nil {
		return err
	}

	for _, p := range parts {
		do := p.measure
		if s.name == bare {
			do = p.floor
		}
		if do == nil {
			continue
		}
		rounds := p.share(pass, passes)
		say("windows, %s: %s, %d rounds", s.name, p.name, rounds)
		for range rounds {
			if err := do(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// warm pays for caches with one pod that does not count.
func (s *windowsSide) warm(ctx context.Context) (err error) {
	if s.name == bare {
		_, _, err = s.bareBatch(ctx, 1)
		return err
	}
	_, err = s.batch(ctx, 1)
	return err
}

// windowsStart measures n pods at once: from the first bind until all are Ready.
// The pods end after each sample, outside of its time.
func windowsStart(name string, n, rounds int, target func(float64, float64) float64) windowsPart {
	key := fmt.Sprintf("start-%d", n)
	return windowsPart{
		kubeletPart: kubeletPart{name: name, rounds: rounds,
			lines: []line{{key: key, name: fmt.Sprintf("windows-bind-to-ready-%d-at-once", n), unit: "s",
				target: target,
				note:   "floor: RunPodSandbox, CreateContainer, StartContainer and ContainerStatus of containerd.exe"}}},
		measure: func(ctx context.Context, s *windowsSide) error {
			took, err := s.batch(ctx, n)
			s.add(key, took)
			return err
		},
		floor: func(ctx context.Context, s *windowsSide) error {
			took, _, err := s.bareBatch(ctx, n)
			s.add(key, took)
			return err
		},
	}
}
