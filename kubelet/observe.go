package kubelet

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
)

// fullCheckPeriod is how often the runtime is read as a whole, to notice what its events missed; pollPeriod is the
// same for a runtime that has no events.
const (
	fullCheckPeriod = 5 * time.Minute
	pollPeriod      = time.Second
)

// strangerPause is the time between an event about a pod without an actor and the full check that it causes.
// unmountPause is the time between the end of a pod and the search for mounts that the runtime forgot.
const (
	strangerPause = 3 * time.Second
	unmountPause  = 3 * time.Second
)

// follow keeps the actors up to date with the runtime: events, and full checks for what they miss.
func (k *Kubelet) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := k.o.Runtime.Events(ctx, func() { k.running.Go(func() { k.checkAll(ctx) }) },
			recovering(ctx, "taking in an event of the runtime", k.runtimeEvent))
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).V(2).Info("Runtime events ended", "cause", err.Error())

		k.runtime.check(ctx)
		k.checkAll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pollPeriod):
		}
	}
}

// runtimeEvent passes an event of the runtime on to the actor of its pod. Some removals do not say of which pod they
// were: every actor gets those, and one that does not know the id ignores it. An event of a pod without an actor leads
// to a full check, which finds out whether the pod is an orphan.
func (k *Kubelet) runtimeEvent(e runtime.Event) {
	if e.UID == "" {
		if e.Removed != "" {
			k.each(func(a *actor) { a.post(pod.Removed{ID: e.Removed, Unowned: true}) })
		}
		return
	}

	known := len(e.Update.Sandboxes)+len(e.Update.Containers) > 0
	a := k.actor(types.UID(e.UID), false)
	if a == nil {
		if e.Removed == "" && known {
			k.checks.soon(k.ctx, &k.running)
		}
		return
	}

	var facts []pod.Fact
	if known {
		facts = append(facts, pod.Observed{Runtime: e.Update})
	}
	if e.Removed != "" {
		facts = append(facts, pod.Removed{ID: e.Removed})
	}

	a.post(facts...)
}

// checkAll reads the whole runtime and hands each actor what is there. A pod that the runtime cannot read now does not
// delay others.
func (k *Kubelet) checkAll(ctx context.Context) {
	began := time.Now()
	found := func(uid string, r *pod.Runtime) {
		if r != nil && r.Name != "" {
			k.statics.set.Occupied(static.FullName(r.Namespace, r.Name), types.UID(uid))
		}
		k.actor(types.UID(uid), true).post(pod.Checked{Runtime: r, Began: began})
	}

	uids, err := k.o.Runtime.CheckAll(ctx, k.lastSeen, func(uid string, r *pod.Runtime, err error) {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Reading a pod in the runtime failed", "pod", uid)
			k.running.Go(func() { k.readUntilKnown(ctx, uid, found) })
			return
		}
		found(uid, r)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the runtime failed")
		k.checks.soon(ctx, &k.running) // no pod starts before the first full check
		return
	}

	listed := map[types.UID]bool{}
	for _, uid := range uids {
		listed[types.UID(uid)] = true
		k.actor(types.UID(uid), true)
	}

	k.knowledge.checked.Store(true)
	k.each(func(a *actor) {
		if !listed[a.uid] {
			found(string(a.uid), &pod.Runtime{UID: string(a.uid)})
		}
	})

	k.statics.endPredecessors()
}

// lastSeen returns what the actor of a pod last saw of it in the runtime.
func (k *Kubelet) lastSeen(uid string) *pod.Runtime {
	if a := k.actor(types.UID(uid), false); a != nil {
		return a.seen.Load()
	}
	return nil
}

// readRetry are the waits between attempts to read a pod that the runtime could not read.
var readRetry = retry.Backoff{First: time.Second, Max: fullCheckPeriod}

// readUntilKnown asks about one pod until there is an answer.
func (k *Kubelet) readUntilKnown(ctx context.Context, uid string, found func(string, *pod.Runtime)) {
	for try := 1; ; try++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(readRetry.Wait(try)):
		}
		if all, err := k.o.Runtime.Snapshot(ctx, uid); err == nil {
			found(uid, all[uid])
			return
		}
	}
}

// cleanOrphans lets the pods that only the runtime knows end, now that all that should run are known. Then it makes a
// full check and cleans up until ctx ends. See knowledge for the order.
func (k *Kubelet) cleanOrphans(ctx context.Context) {
	select {
	case <-k.statics.set.Ready():
	case <-ctx.Done():
		return
	}

	k.knowledge.sourcesReady.Store(true) // the first full check may come later than this, and find more
	k.each(func(a *actor) { a.post(pod.SourcesReady{}) })
	if until(ctx, k.knowledge.mayCleanUp) != nil || !k.knowledge.waitOrphanGrace(ctx) {
		return
	}

	tick := time.NewTicker(fullCheckPeriod)
	defer tick.Stop()
	for {
		k.o.Meter.Life().Swept(k.folders.removeUnknown(ctx, k.mayHaveFolders))
		k.unmountForgotten(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.checkAll(ctx)
		}
	}
}

// mayHaveFolders reports whether the folders of a pod are to stay.
func (k *Kubelet) mayHaveFolders(uid types.UID) bool {
	return !k.knowledge.mayCleanUp() || k.actor(uid, false) != nil
}

// unmountTries is how many searches for forgotten mounts follow each other, unmountPause apart, while containerd still
// knows containers that CRI does not. It is bounded because such containers may belong to somebody else and stay. The
// next pod that ends, and the next full check, begin a new series.
const unmountTries = 20

// unmountForgotten undoes the mounts of containers that the runtime forgot. It repeats that while containerd may
// forget more.
func (k *Kubelet) unmountForgotten(ctx context.Context) {
	undecided, err := k.o.Runtime.UnmountForgotten(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Unmounting what the runtime has forgotten failed")
	}
	if undecided == 0 && err == nil {
		k.unmountAgain.Store(0)
		return
	}
	if k.unmountAgain.Add(1) < unmountTries {
		k.unmounts.soon(ctx, &k.running)
	}
}
