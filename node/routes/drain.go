package routes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/routes/bgp"
	"porthole.dev/porthole/routes/table"
)

// podList is the pods of one node. networkapi.Pods implements it.
type podList interface {
	// Run follows them until ctx ends.
	Run(ctx context.Context)
	// List returns an error while they are not known: networkapi.ErrPodsUnknown, or why the API server does not answer.
	List() ([]*corev1.Pod, error)
}

// drain knows the pods of this node while it is cordoned, for the mode bgp, which withdraws the range of a node that
// is drained. While the node takes pods, the API server is not asked for them. It is safe for concurrent use.
type drain struct {
	memory *memory // keeps over a restart whether the node is drained; nil: nothing does

	mu    sync.Mutex
	list  podList            // nil: not followed
	end   context.CancelFunc // of list
	heard wakeup.Signal      // something changed since
}

// followDrain follows the pods of this node as long as it is cordoned.
func (a *agent) followDrain(ctx context.Context, tasks *sync.WaitGroup) {
	nodes, _ := a.cluster.List()
	i := slices.IndexFunc(nodes, func(n table.Node) bool { return n.Name == a.o.Node })
	if a.o.Mode != BGP || i < 0 {
		return
	}
	d := &a.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	// Nothing is to be done unless the node's cordon has changed.
	if nodes[i].Cordoned == (d.list != nil) {
		return
	}
	if d.list != nil {
		d.end()
		d.list = nil
		return
	}

	// A change of the pods wakes who waits for the drain, and lets the routes be checked.
	heard := wakeup.New()
	list := a.cluster.FollowPods(func() {
		heard.Wake()
		if k := a.routeKeeper(); k != nil {
			k.Changed()
		}
	})
	ctx, d.end = context.WithCancel(ctx)
	d.list, d.heard = list, heard
	tasks.Go(func() { list.Run(ctx) })
}

// awaited is how long the first pass waits for the pods of a node that is cordoned. Without them it would announce the
// range of a node that is drained for a moment.
const awaited = 2 * time.Second

// await waits until the pods are known, or it is known why they are not, if they are followed.
func (d *drain) await(ctx context.Context) {
	d.mu.Lock()
	list, heard := d.list, d.heard
	d.mu.Unlock()
	if list == nil {
		return
	}
	enough := time.NewTimer(awaited)
	defer enough.Stop()
	for {
		if _, err := list.List(); !errors.Is(err, networkapi.ErrPodsUnknown) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-enough.C:
			return
		case <-heard:
		}
	}
}

// pods returns what is known of the pods that a drain evicts. As long as nothing is, an agent takes a node for drained
// that an earlier one saw drained. What it sees itself is kept before anything is done about it.
func (d *drain) pods() bgp.Pods {
	d.mu.Lock()
	list := d.list
	d.mu.Unlock()
	if list == nil {
		d.memory.setDrained(false)
		return bgp.Pods{}
	}

	pods, err := list.List()
	if err == nil {
		left := evictable(pods)
		d.memory.setDrained(left == 0)
		return bgp.Pods{Known: true, Left: left}
	}
	seen := bgp.Pods{Known: d.memory.wasDrained()}
	if !errors.Is(err, networkapi.ErrPodsUnknown) {
		seen.Why = err.Error()
	}
	return seen
}

// evictable counts the pods that `kubectl drain` evicts or waits for and that have an address of the pod network. A
// pod that is being deleted counts until it is gone: it may need the network to end in good order.
func evictable(pods []*corev1.Pod) (n int) {
	for _, p := range pods {
		_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
		owner := metav1.GetControllerOf(p)
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !mirror && !ended && !p.Spec.HostNetwork && (owner == nil || owner.Kind != "DaemonSet") {
			n++
		}
	}
	return n
}
