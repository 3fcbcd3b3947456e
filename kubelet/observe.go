package kubelet

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
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
const strangerPause = 3 * time.Second

// observer tells the actors what the runtime has of their pods.
type observer struct {
	runtime Runtime
	pods    *Pods
	// ensure returns the actor of a pod, and starts it if there is none.
	ensure  func(uid types.UID) *actor
	statics *staticPods
	// health asks the runtime for its health.
	health func(context.Context)
	tasks  *group

	checks delayed // full checks: one for the many reasons that come at the same time
}

func (k *Kubelet) newObserver() *observer {
	w := &observer{runtime: k.o.Runtime, pods: k.pods, ensure: k.ensure, statics: k.statics, health: k.runtime.check,
		tasks: &k.running}
	w.checks.pause, w.checks.do = strangerPause, w.checkAll
	return w
}

// follow keeps the actors up to date with the runtime: events, and full checks for what they miss.
func (w *observer) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.runtime.Events(ctx, func() { w.tasks.Go(func() { w.checkAll(ctx) }) },
			recovering(ctx, "taking in an event of the runtime", func(e runtime.Event) { w.event(ctx, e) }))
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).V(2).Info("Runtime events ended", "cause", err.Error())

		w.health(ctx)
		w.checkAll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pollPeriod):
		}
	}
}

// event passes an event of the runtime on to the actor of its pod. Some removals do not say of which pod they
// were: every actor gets those, and one that does not know the id ignores it. An event of a pod without an actor leads
// to a full check, which finds out whether the pod is an orphan.
func (w *observer) event(ctx context.Context, e runtime.Event) {
	if e.UID == "" {
		if e.Removed != "" {
			w.pods.each(func(a *actor) { a.post(pod.Removed{ID: e.Removed, Unowned: true}) })
		}
		return
	}

	known := len(e.Update.Sandboxes)+len(e.Update.Containers) > 0
	a := w.pods.find(types.UID(e.UID))
	if a == nil {
		if e.Removed == "" && known {
			w.checks.soon(ctx, w.tasks)
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
func (w *observer) checkAll(ctx context.Context) {
	began := time.Now()
	found := func(uid string, r *observed.Runtime) {
		if r != nil && r.Name != "" {
			w.statics.set.Occupied(static.FullName(r.Namespace, r.Name), types.UID(uid))
		}
		w.ensure(types.UID(uid)).post(pod.Checked{Runtime: r, Began: began})
	}

	uids, err := w.runtime.CheckAll(ctx, w.lastSeen, func(uid string, r *observed.Runtime, err error) {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Reading a pod in the runtime failed", "pod", uid)
			w.tasks.Go(func() { w.readUntilKnown(ctx, uid, found) })
			return
		}
		found(uid, r)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the runtime failed")
		w.checks.soon(ctx, w.tasks) // no pod starts before the first full check
		return
	}

	listed := map[types.UID]bool{}
	for _, uid := range uids {
		listed[types.UID(uid)] = true
		w.ensure(types.UID(uid))
	}

	w.pods.knowledge.checked.Store(true)
	w.pods.each(func(a *actor) {
		if !listed[a.uid] {
			found(string(a.uid), &observed.Runtime{UID: string(a.uid)})
		}
	})

	w.statics.endPredecessors()
}

// lastSeen returns what the actor of a pod last saw of it in the runtime.
func (w *observer) lastSeen(uid string) *observed.Runtime {
	if a := w.pods.find(types.UID(uid)); a != nil {
		return a.seen.Load()
	}
	return nil
}

// readRetry are the waits between attempts to read a pod that the runtime could not read.
var readRetry = retry.Backoff{First: time.Second, Max: fullCheckPeriod}

// readUntilKnown asks about one pod until there is an answer.
func (w *observer) readUntilKnown(ctx context.Context, uid string, found func(string, *observed.Runtime)) {
	for try := 1; ; try++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(readRetry.Wait(try)):
		}
		if all, err := w.runtime.Snapshot(ctx, uid); err == nil {
			found(uid, all[uid])
			return
		}
	}
}
