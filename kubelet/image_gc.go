package kubelet

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// imagePeriod is how often unused images are collected.
const imagePeriod = 5 * time.Minute

// collectImages removes unused images when their disk is full or they are old. The first round only sees what there is;
// the second comes as soon as that is old enough to go, for a disk may be full when a kubelet starts.
func (k *Kubelet) collectImages(ctx context.Context) {
	gc := k.o.ImageGC
	if gc == nil {
		return
	}
	gc.Event = k.o.API.NodeEvent

	for wait := min(gc.Policy.MinAge+time.Second, imagePeriod); ; wait = imagePeriod {
		if err := gc.Collect(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Collecting unused images failed")
		}
		k.node.SetImages(gc.Largest(k.o.MaxImages))

		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
