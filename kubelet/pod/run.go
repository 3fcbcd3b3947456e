package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/pod/spec"
)

// planRun plans the actions of a pod that should run.
func planRun(s *State, d *decision) {
	d.plan.wake(deadline(s))
	if !s.admitted {
		return
	}
	if !s.volumes.ready {
		d.whenDue(s.volumes.failure, func() { d.do(s.tasks, Action{Kind: PrepareVolumes, Key: VolumesKey}) })
	}

	next, reset := unmade(s, d), &time.Time{}
	if next == nil {
		if stopStale(s, d) {
			return
		}
		next, reset = wanted(s, d), lastReset(s)
	}

	box := s.runtime.NewestSandbox()
	usable := box != nil && box.Ready && box.HostNetwork == s.pod.Spec.HostNetwork &&
		(box.HostNetwork || len(box.IPs) > 0)
	if !usable {
		planSandbox(s, d, len(next) > 0)
	}

	busy := usable && planResize(s, d) || s.starting()
	for _, w := range next {
		img := s.images[w.c.Name]
		if img.Ref == "" {
			d.whenDue(img.Failure, func() {
				d.do(s.tasks, Action{Kind: EnsureImage, Key: imageActionKey(w.c.Name), Name: w.c.Name})
			})
			continue
		}
		if !imageVolumes(s, w.c, d) || !usable || !s.volumes.ready || busy {
			continue
		}
		d.whenDue(s.tasks.failures[w.c.Name], func() {
			d.do(s.tasks, Action{Kind: StartContainer, Key: startKey(w.c.Name), Name: w.c.Name, ID: box.ID,
				Attempt:  w.attempt,
				ImageRef: img.Ref, Backoff: w.backoff, Reset: reset})
			busy = true // containers start one at a time, in the order of the spec
		})
	}

	d.whenDue(s.tasks.failures[RemoveKey], func() { removeSurplus(s, d) })
}

// imageVolumes plans to make the images of the volumes that a container mounts present, and reports whether all are.
func imageVolumes(s *State, c *v1.Container, d *decision) (present bool) {
	present = true
	for _, v := range spec.MountedImages(s.pod, c) {
		img := s.images[VolumeImage(v)]
		if img.Ref != "" {
			continue
		}
		present = false
		key := imageActionKey(VolumeImage(v))
		if !d.plan.has(key) { // several containers may mount it
			d.whenDue(img.Failure, func() { d.do(s.tasks, Action{Kind: EnsureImage, Key: key, Volume: v}) })
		}
	}
	return present
}

// planSandbox replaces a sandbox that cannot be used. It plans one stage per call: the containers in it are stopped
// first, then the sandbox itself, and only then a new one is created; the facts of each stage lead to the next call.
// needed says that there is a container to start. Without one, the newest sandbox stays as it is, and none is created.
func planSandbox(s *State, d *decision, needed bool) {
	box, p := s.runtime.NewestSandbox(), d.plan
	for c := range s.runtime.All() { // the containers of an unusable sandbox are stopped first
		if c.State == observed.Running {
			stopContainer(s, d, c,
				stopOrder{left: grace(s), message: "Pod sandbox changed, it will be killed and re-created."})
			needed = false
		}
	}

	for _, b := range s.runtime.Sandboxes {
		if b.Ready && (box == nil || b.ID != box.ID || needed) {
			stopSandbox(s, d, b.ID)
			needed = false
		}
	}

	if !needed {
		return
	}

	var attempt uint32
	if box != nil {
		attempt = box.Attempt + 1
		p.Events = append(p.Events, Event{Key: box.ID, Type: v1.EventTypeNormal, Reason: "SandboxChanged",
			Message: "Pod sandbox changed, it will be killed and re-created."})
	}

	if d.node.NetworkNotReady != "" && !s.pod.Spec.HostNetwork {
		p.Events = append(p.Events, Event{Key: "network", Type: v1.EventTypeWarning, Reason: "NetworkNotReady",
			Message: "network is not ready: " + d.node.NetworkNotReady})
		p.wake(d.now.Add(time.Second))
		return
	}

	// A sandbox that died has its network still, until it is stopped: all have after a reboot of the node.
	for _, b := range s.runtime.Sandboxes {
		if !s.runtime.stopped[b.ID] {
			stopSandbox(s, d, b.ID)
			needed = false
		}
	}
	if !needed {
		return
	}

	d.try(s.tasks, Action{Kind: CreateSandbox, Key: SandboxKey, Attempt: attempt})
}

// removeSurplus removes containers and sandboxes that were replaced. Of each container name it keeps the newest that
// has exited, because `kubectl logs --previous` and the last termination state are read from it. It keeps the sandbox
// in use, and any other in which a container still is. The pod has a sandbox.
func removeSurplus(s *State, d *decision) {
	last := trigger(s) // what it reset may not all run yet
	for c := range s.runtime.All() {
		if c.State != observed.Exited {
			continue
		}
		newer := 0
		for o := range s.runtime.All() {
			if o.Name == c.Name && o.State == observed.Exited && o.NewerThan(c) {
				newer++
			}
		}
		if newer > 0 && c != last {
			d.do(s.tasks, Action{Kind: RemoveContainer, Key: removeKey(c.ID), ID: c.ID, Name: c.Name})
		}
	}

	box := s.runtime.NewestSandbox()
	for _, b := range s.runtime.Sandboxes {
		if b.ID != box.ID && !b.Ready && !s.runtime.Uses(b.ID) && !s.tasks.busy(stopSandboxKey(b.ID)) {
			d.do(s.tasks, Action{Kind: RemoveSandbox, Key: removeKey(b.ID), ID: b.ID})
		}
	}
}
