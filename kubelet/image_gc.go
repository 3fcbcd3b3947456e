package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/image"
)

// imagePeriod is how often unused images are collected.
const imagePeriod = 5 * time.Minute

// collectImages removes unused images when their disk is full or they are old, until ctx ends. After each round it
// calls largest with the images that are left, at most limit of them. The first round only finds what there is; the
// second comes as soon as that is old enough to be removed, for a disk may be full when a kubelet starts.
func collectImages(ctx context.Context, gc *image.GC, limit int, largest func([]v1.ContainerImage)) {
	collect := func(ctx context.Context) error {
		err := gc.Collect(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Collecting unused images failed")
		}
		largest(gc.Largest(limit))
		return err
	}
	_ = collect(ctx)
	if wakeup.Pause(ctx, min(gc.Policy.MinAge+time.Second, imagePeriod)) {
		loop.Loop{Pass: collect, Period: imagePeriod}.Run(ctx)
	}
}
