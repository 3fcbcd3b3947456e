package kubelet

import (
	"context"
	"sync/atomic"
	"time"
)

// orphanGrace is how long after its start a kubelet removes no folders and mounts of pods that it does not know: a
// sandbox that the previous kubelet asked for may still be under construction, or be taken back, and leaves a cgroup
// that only such a folder names.
const orphanGrace = 10 * time.Second

// knowledge is how much a kubelet that was started some time ago knows about the pods of its node. It is the one place
// that answers which pods it may admit, end, and clean up after.
//
//	start
//	  │
//	  │ the API has delivered all its pods (joined)
//	  ├───> pods of the API that are new may be admitted. Before that they could take the places of pods which an
//	  │     earlier kubelet has admitted and which the API has not delivered yet.
//	  │
//	  │ the static sources have delivered too (sources ready)
//	  ├───> a pod that no source has is an orphan: its containers and sandboxes are ended, as soon as the runtime has said
//	  │     what it has of it (pod.State.Undecided). A static pod's predecessor need not wait for this, see endPredecessors.
//	  │
//	  │ the runtime was read as a whole (checked)
//	  ├───> a pod that appears from now on, and was not listed, has nothing in the runtime.
//	  │
//	  │ orphanGrace since the start
//	  └───> folders, logs, cgroups and mounts that belong to no known pod are removed.
//
// What is known is never forgotten: each step lasts until the kubelet ends.
type knowledge struct {
	began                         time.Time
	joined, sourcesReady, checked atomic.Bool
}

// mayAdmit reports whether pods may be admitted that come from the API and have no containers yet.
func (k *knowledge) mayAdmit() bool { return k.joined.Load() }

// mayCleanUp reports whether what is on disk may be removed if no pod is known that it belongs to.
func (k *knowledge) mayCleanUp() bool { return k.checked.Load() }

// waitOrphanGrace waits until orphanGrace has passed since the start. It returns false if ctx ends first.
func (k *knowledge) waitOrphanGrace(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(k.began.Add(orphanGrace))):
		return true
	}
}

// delayed is something that is done once after a pause, however often it is asked for meanwhile.
type delayed struct {
	pause   time.Duration
	do      func(context.Context)
	pending atomic.Bool
}

// soon does it after the pause in a goroutine of tasks, unless it is about to be done already or ctx ends first.
func (d *delayed) soon(ctx context.Context, tasks *group) {
	if !d.pending.CompareAndSwap(false, true) {
		return
	}
	tasks.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(d.pause):
			d.pending.Store(false)
			d.do(ctx)
		}
	})
}
