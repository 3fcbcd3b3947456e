package kubelet

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/runtime"
)

// nodeLinks connects the node's status with the API and the runtime.
func (k *Kubelet) nodeLinks() nodestatus.Links {
	links := nodestatus.Links{API: k.o.API, Event: k.o.API.NodeEvent,
		Runtime: func() (runtime.Version, runtime.Health) { return *k.version.Load(), *k.health.Load() },
		PodCIDR: k.passPodCIDR}
	if k.o.ImageGC != nil {
		links.ImageFolder = k.o.ImageGC.Path
	}
	return links
}

// passPodCIDR hands the node's pod range to the runtime, and looks whether that made its network ready.
func (k *Kubelet) passPodCIDR(cidr string) {
	k.running.Go(func() {
		if err := k.o.Runtime.SetPodCIDR(k.ctx, cidr); err != nil {
			klog.FromContext(k.ctx).Error(err, "Passing on the pod CIDR failed")
		}
		k.checkRuntime(k.ctx)
	})
}

// watchRuntime asks the runtime for its health: often while something is missing, seldom when all is well.
func (k *Kubelet) watchRuntime(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		now := time.Now()
		k.turned.Store(&now)
		h := k.health.Load()
		if !h.NetworkReady || !h.RuntimeReady || time.Since(asked) > 5*time.Second {
			asked = time.Now()
			k.checkRuntime(ctx)
		}
	}
}
