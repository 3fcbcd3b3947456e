package routes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/routes/bgp"
)

// fakePods are the pods of a node in memory.
type fakePods struct {
	changed func()

	mu      sync.Mutex
	list    []*corev1.Pod
	err     error
	running bool
}

func (p *fakePods) Run(ctx context.Context) {
	p.set(func() { p.running = true })
	<-ctx.Done()
	p.set(func() { p.running = false })
}

func (p *fakePods) List() ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list, p.err
}

func (p *fakePods) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.changed()
}

func (p *fakePods) runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// TestFollowsPodsOfACordonedNode: pods are asked for while the node is cordoned, and only in the mode bgp.
func TestFollowsPodsOfACordonedNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		free := node("win01", "10.99.0.21", "10.244.1.0/24")
		cordoned := free.DeepCopy()
		cordoned.Spec.Unschedulable = true
		w := newTestNode(t, Options{Mode: BGP})
		w.start(t)
		tell := func(n *corev1.Node) {
			w.cluster.set(n)
			w.changed(nil)
			later(time.Second)
		}
		want := func(when string, pods bgp.Pods) {
			t.Helper()
			if got := w.drain.pods(); got != pods {
				t.Errorf("%s: %+v, want %+v", when, got, pods)
			}
		}

		want("before the cordon", bgp.Pods{})
		if w.cluster.pods != nil {
			t.Error("pods are followed although the node takes pods")
		}
		tell(cordoned)
		pods := w.cluster.pods
		if pods == nil || !pods.runs() {
			t.Fatal("the pods of a cordoned node are not followed")
		}
		want("before the first answer", bgp.Pods{})
		pods.set(func() { pods.err = errors.New("pods is forbidden") })
		want("refused", bgp.Pods{Why: "pods is forbidden"})
		pods.set(func() { pods.list, pods.err = []*corev1.Pod{{}}, nil })
		want("known", bgp.Pods{Known: true, Left: 1})
		tell(free)
		want("uncordoned", bgp.Pods{})
		if pods.runs() {
			t.Error("pods are still followed when the node takes pods again")
		}

		other := newTestNode(t, Options{})
		other.start(t)
		other.cluster.set(cordoned)
		other.changed(nil)
		later(time.Second)
		if other.cluster.pods != nil {
			t.Error("the mode host-gateway follows pods")
		}
	})
}

// TestEvictable: what a drain leaves does not count, and what needs no pod network.
func TestEvictable(t *testing.T) {
	yes := true
	owned := func(kind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: &yes}}}
	}
	ending := metav1.Now()
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want int
	}{
		"bare":            {corev1.Pod{}, 1},
		"of a ReplicaSet": {corev1.Pod{ObjectMeta: owned("ReplicaSet")}, 1},
		"being deleted": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &ending},
			Status: corev1.PodStatus{Phase: corev1.PodRunning}}, 1},
		"of a DaemonSet": {corev1.Pod{ObjectMeta: owned("DaemonSet")}, 0},
		"static": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}, 0},
		"in the host's":    {corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true}}, 0},
		"succeeded":        {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, 0},
		"failed (evicted)": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, 0},
	} {
		if got := evictable([]*corev1.Pod{&c.pod}); got != c.want {
			t.Errorf("%s: counts as %d, want %d", name, got, c.want)
		}
	}
}
