package kubelet

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/effect"
)

// unmountPause is the time between the end of a pod and the search for mounts that the runtime forgot.
const unmountPause = 3 * time.Second

// cleaner removes what pods that have ended left on the node: folders, logs, cgroups and mounts.
type cleaner struct {
	runtime Runtime
	pods    *Pods
	folders *effect.Folders
	// checkAll reads the runtime as a whole.
	checkAll func(context.Context)
	// swept counts the pods whose folders were removed, and those of which that failed.
	swept func(removed, failed int)
	tasks *group

	unmounts delayed      // one for the many pods that end at the same time
	again    atomic.Int32 // how many searches for mounts in a row left some undecided or failed
}

func (k *Kubelet) newCleaner() *cleaner {
	c := &cleaner{runtime: k.o.Runtime, pods: k.pods, folders: k.tools.Folders, checkAll: k.observer.checkAll,
		swept: k.o.Meter.Life().Swept, tasks: &k.running}
	c.unmounts.pause = unmountPause
	c.unmounts.do = c.unmountForgotten
	return c
}

// run cleans up after pods that are not known, and makes full checks, until ctx ends. It begins when it is known which
// pods there are. See knowledge for the order.
func (c *cleaner) run(ctx context.Context) {
	if until(ctx, c.pods.knowledge.mayCleanUp) != nil || !c.pods.knowledge.waitOrphanGrace(ctx) {
		return
	}

	first := true
	loop.Loop{Period: fullCheckPeriod, Pass: func(ctx context.Context) error {
		if !first {
			c.checkAll(ctx)
		}
		first = false
		c.swept(c.folders.RemoveUnknown(ctx, c.foldersStay))
		c.unmountForgotten(ctx)
		return nil // what failed was logged, and is tried again by the next pass
	}}.Run(ctx)
}

// foldersStay reports whether the folders of a pod are to stay.
func (c *cleaner) foldersStay(uid types.UID) bool {
	return !c.pods.knowledge.mayCleanUp() || c.pods.find(uid) != nil
}

// finished removes the folders of a pod that has just ended, and mounts that the runtime forgot.
func (c *cleaner) finished(ctx context.Context, uid types.UID) {
	if !c.pods.knowledge.waitOrphanGrace(ctx) {
		return // the next kubelet finds them
	}
	c.removeSoon(ctx, uid)
	c.folders.RemoveDeadLinks()
	c.again.Store(0)
	c.unmounts.soon(ctx, c.tasks)
}

// folderRetry are the waits before the folders of a pod are tried again: a file that the runtime still holds cannot be
// removed on Windows.
var folderRetry = retry.Backoff{First: time.Second}

const folderTries = 6 // in about half a minute

// removeSoon removes the folders of a pod that has ended, unless the pod comes back, which static ones do. After
// folderTries the full checks go on with it.
func (c *cleaner) removeSoon(ctx context.Context, uid types.UID) {
	for try := 1; c.pods.find(uid) == nil; try++ {
		err := c.folders.Remove(context.WithoutCancel(ctx), uid)
		if err == nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Removing the folders of a pod failed", "pod", uid)
		if try == folderTries {
			return
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(folderRetry.Wait(try)):
		}
	}
}

// unmountTries is how many searches for forgotten mounts follow each other, unmountPause apart, while containerd still
// knows containers that CRI does not. It is bounded because such containers may belong to somebody else and stay. The
// next pod that ends, and the next full check, begin a new series.
const unmountTries = 20

// unmountForgotten undoes the mounts of containers that the runtime forgot. It repeats that while containerd may
// forget more.
func (c *cleaner) unmountForgotten(ctx context.Context) {
	undecided, err := c.runtime.UnmountForgotten(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Unmounting what the runtime has forgotten failed")
	}
	if undecided == 0 && err == nil {
		c.again.Store(0)
		return
	}
	if c.again.Add(1) < unmountTries {
		c.unmounts.soon(ctx, c.tasks)
	}
}
