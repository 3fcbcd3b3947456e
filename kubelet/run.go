package kubelet

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/static"
)

// Run registers the node and runs its pods until ctx ends. Containers go on without it. Static pods run before the API
// server answers, for it may be one of them; without one (Standalone) they are all that there is.
func (k *Kubelet) Run(ctx context.Context) error {
	k.ctx = ctx
	if err := k.runtime.begin(ctx); err != nil {
		return err
	}

	last, err := readShutdown(k.o.RootDir)
	if err != nil {
		klog.FromContext(ctx).Error(err, "When the node shut down last is not known")
	}
	k.o.Meter.ShutDown(last.StartTime, last.EndTime)

	if err := k.beginCgroups(ctx); err != nil {
		return err
	}
	k.node.Begin()
	k.running.Go(func() { k.runtime.run(ctx) })
	k.running.Go(func() { k.status.Run(ctx) })
	k.running.Go(func() { k.observer.follow(ctx) })
	if gc := k.o.ImageGC; gc != nil {
		k.running.Go(func() { collectImages(ctx, gc, k.o.MaxImages, k.node.SetImages) })
	}
	k.running.Go(func() { k.pressure.run(ctx) })
	k.running.Go(func() { k.o.Allot.Run(ctx) })
	if k.share != nil {
		k.running.Go(func() { k.share.Run(ctx) })
	}

	k.statics.run(ctx)
	if !k.o.Standalone {
		if err := k.join(ctx); err != nil {
			return err
		}
	}

	klog.FromContext(ctx).Info("Kubelet runs", "node", k.o.Node.Name)
	k.running.Go(func() { k.endOrphans(ctx) })

	<-ctx.Done()
	k.drain()
	return nil
}

// join registers the node and follows the API. It returns when all pods of the API are known.
func (k *Kubelet) join(ctx context.Context) error {
	if err := k.node.Register(ctx); err != nil {
		return err
	}
	k.node.Announce()
	k.running.Go(func() { k.o.API.RunLease(ctx, k.o.LeaseSeconds) })
	k.running.Go(func() { k.node.Run(ctx) })
	services := k.o.API.WatchServices(ctx)
	if err := until(ctx, services); err != nil {
		return err
	}
	synced := k.o.API.Pods(ctx, recovering(ctx, "taking in a pod", k.podChanged),
		recovering(ctx, "letting go of a pod", k.podGone))
	if err := until(ctx, synced); err != nil {
		return err
	}
	k.pods.knowledge.joined.Store(true)
	k.pods.WakeAll()

	m := &static.Mirrors{Pods: k.statics.set, API: k.o.API, Node: k.node.Object, Made: k.statics.mirrorChanged}
	k.running.Go(func() { m.Run(ctx) })
	return nil
}

// beginCgroups makes the cgroups above the pods'.
func (k *Kubelet) beginCgroups(ctx context.Context) error {
	if k.share == nil {
		return nil
	}
	if err := k.o.Cgroups.Begin(ctx); err != nil {
		return err
	}
	k.share.Begin(ctx)
	return nil
}

// endOrphans lets the pods that only the runtime knows end, now that all that should run are known, and cleans up
// after them until ctx ends.
func (k *Kubelet) endOrphans(ctx context.Context) {
	select {
	case <-k.statics.set.Ready():
	case <-ctx.Done():
		return
	}

	k.pods.knowledge.sourcesReady.Store(true) // the first full check may come later than this, and find more
	k.pods.each(func(a *actor) { a.post(pod.SourcesReady{}) })
	k.cleaner.run(ctx)
}

// drain lets what is under way end, but not for long: the next kubelet finds everything in the runtime.
func (k *Kubelet) drain() {
	k.running.Close()
	done := make(chan struct{})
	go func() {
		k.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
}

// until waits for an answer that turns true soon after a start.
func until(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
