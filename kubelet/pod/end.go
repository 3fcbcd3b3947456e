package pod

import (
	"cmp"
	"slices"
	"time"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// removeNeverStarted plans to remove containers that were made but never started, and reports whether there are any. A
// kubelet that is killed between the two leaves them. A stop does not end them, and their waiting process would keep
// the pod's cgroup.
func removeNeverStarted(s *State, d *decision) (found bool) {
	for c := range s.runtime.All() {
		if c.State == observed.Created {
			found = true
			removeContainer(s, d, c)
		}
	}
	return found
}

// planEnd plans the actions of a pod that must stop: its containers end first, then its sandboxes, then volumes and
// cgroup are given back, then sandboxes and containers are removed.
func planEnd(s *State, d *decision, stop *Stop) {
	since := s.ending.since
	if since.IsZero() {
		since = d.now
	}

	left := max(gracePeriod(s)-d.now.Sub(since), time.Second)
	if stop.Grace != nil {
		left = min(left, max(*stop.Grace, time.Second))
	}

	running := stopContainers(s, d, stopOrder{left: left, over: since.Add(gracePeriod(s))})
	if running || s.creating() {
		return
	}

	d.plan.Stopped = true
	// A finished pod keeps its containers, for its logs, until it is deleted or the disk is full.
	kept := s.pod != nil && s.pod.DeletionTimestamp == nil && !s.source.gone && !s.ending.reclaimed
	for _, b := range s.runtime.Sandboxes {
		if b.Ready || kept && !s.runtime.stopped[b.ID] { // removing one takes its network down too
			stopSandbox(s, d, b.ID)
			running = true
		}
	}
	if running {
		return
	}

	if removeNeverStarted(s, d) {
		return
	}
	if !s.ending.cleaned {
		d.try(s.tasks, Action{Kind: Cleanup, Key: CleanupKey})
		return
	}
	if kept {
		return
	}

	removeRest(s, d)
	if len(s.runtime.Sandboxes)+len(s.runtime.Containers) == 0 {
		d.plan.Finished = s.pod == nil || s.source.gone
	}
}

// removeRest plans to remove the sandboxes, which removes their containers, and the containers that no sandbox is left
// of.
func removeRest(s *State, d *decision) {
	for _, b := range s.runtime.Sandboxes {
		if s.tasks.busy(stopSandboxKey(b.ID)) {
			continue // its network is being taken down: a removal would do that a second time
		}
		d.try(s.tasks, Action{Kind: RemoveSandbox, Key: removeKey(b.ID), ID: b.ID})
	}
	if len(s.runtime.Sandboxes) > 0 {
		return
	}

	for c := range s.runtime.All() {
		removeContainer(s, d, c)
	}
}

// lateGrace is what sidecars get that waited for their turn until the grace period was over, as with upstream.
const lateGrace = 2 * time.Second

// stopContainers plans to stop the regular containers together, then the sidecars one after the other in reverse
// order; when the grace period is over, all that are left. It reports whether any container runs.
func stopContainers(s *State, d *decision, o stopOrder) (running bool) {
	order := map[string]int{}
	if s.pod != nil {
		for c := range desired.Init(s.pod) {
			if desired.IsSidecar(c) {
				order[c.Name] = len(order)
			}
		}
	}

	var sidecars []*observed.Container
	apps := false
	for c := range s.runtime.All() {
		if c.State != observed.Running {
			continue
		}
		running = true
		if _, ok := order[c.Name]; ok {
			sidecars = append(sidecars, c)
			continue
		}
		apps = true
		stopContainer(s, d, c, o.of(c))
	}

	slices.SortFunc(sidecars, func(a, b *observed.Container) int { return cmp.Compare(order[b.Name], order[a.Name]) })
	if !apps && len(sidecars) > 0 {
		stopContainer(s, d, sidecars[0], o.of(sidecars[0]))
		sidecars = sidecars[1:]
	}
	if len(sidecars) > 0 && d.now.Before(o.over) {
		d.plan.wake(o.over)
		return running
	}
	for _, c := range sidecars {
		late := o.of(c)
		late.left = lateGrace
		stopContainer(s, d, c, late)
	}
	return running
}
