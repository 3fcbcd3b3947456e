package kubelet

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// Run registers the node and runs its pods until ctx ends. Containers go on without it. Static pods run before the API
// server answers, for it may be one of them; without one (Standalone) they are all that there is.
func (k *Kubelet) Run(ctx context.Context) error {
	k.ctx = ctx
	k.checks.pause, k.checks.do = strangerPause, k.checkAll
	k.unmounts.pause, k.unmounts.do = unmountPause, k.unmountForgotten
	if err := k.runtime.begin(ctx); err != nil {
		return err
	}

	last, err := readShutdown(k.o.RootDir)
	if err != nil {
		klog.FromContext(ctx).Error(err, "When the node shut down last is not known")
	}
	k.o.Meter.ShutDown(last.StartTime, last.EndTime)

	if err := k.o.Cgroups.Begin(ctx); err != nil {
		return err
	}
	k.share.begin(ctx)
	k.node.Begin()
	k.running.Go(func() { k.runtime.run(ctx) })
	k.running.Go(func() { k.status.Run(ctx) })
	k.running.Go(func() { k.follow(ctx) })
	if gc := k.o.ImageGC; gc != nil {
		gc.Event = k.o.API.NodeEvent
		k.running.Go(func() { collectImages(ctx, gc, k.o.MaxImages, k.node.SetImages) })
	}
	k.running.Go(func() { k.pressure.run(ctx) })
	k.running.Go(func() { serveDevices(ctx, k.devices) })
	k.running.Go(func() { serveClaims(ctx, k.o.Placing.Claims) })
	k.running.Go(func() { k.repin.run(ctx) })
	k.running.Go(func() { k.share.run(ctx) })

	k.statics.run(ctx)
	if !k.o.Standalone {
		if err := k.join(ctx); err != nil {
			return err
		}
	}

	klog.FromContext(ctx).Info("Kubelet runs", "node", k.o.Node.Name)
	k.running.Go(func() { k.cleanOrphans(ctx) })

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
	k.knowledge.joined.Store(true)
	k.each(func(a *actor) { a.wake.Wake() })

	m := &mirrors{pods: k.statics.set, api: k.o.API, node: k.node.Object, made: k.statics.mirrorChanged}
	k.running.Go(func() { m.run(ctx) })
	return nil
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
