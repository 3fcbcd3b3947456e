package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Offline stands for the API where there is none: it has no objects, takes none, and prints events to the log. It also
// stands for the objects and tokens that package volume asks for.
type Offline struct{}

func absent(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func always() bool { return true }

// Pods has none.
func (Offline) Pods(context.Context, func(*v1.Pod), func(*v1.Pod)) func() bool { return always }

// WatchServices has none.
func (Offline) WatchServices(context.Context) func() bool { return always }

// Services has none.
func (Offline) Services(string) []*v1.Service { return nil }

// WatchNode never calls back.
func (Offline) WatchNode(context.Context, func(*v1.Node)) {}

// PatchPodStatus finds no pod.
func (Offline) PatchPodStatus(_ context.Context, _, name string, _ []byte) (*v1.Pod, error) {
	return nil, absent("pods", name)
}

// CreatePod keeps nothing.
func (Offline) CreatePod(_ context.Context, p *v1.Pod) (*v1.Pod, error) {
	return nil, absent("pods", p.Name)
}

// DeletePod finds no pod.
func (Offline) DeletePod(_ context.Context, _, name string, _ types.UID) error {
	return absent("pods", name)
}

// RuntimeClass finds none.
func (Offline) RuntimeClass(_ context.Context, name string) (*nodev1.RuntimeClass, error) {
	return nil, absent("runtimeclasses", name)
}

// GetNode finds none.
func (Offline) GetNode(context.Context) (*v1.Node, error) { return nil, absent("nodes", "") }

// CreateNode gives back what it got.
func (Offline) CreateNode(_ context.Context, n *v1.Node) (*v1.Node, error) { return n, nil }

// PatchNode finds none.
func (Offline) PatchNode(context.Context, []byte) (*v1.Node, error) { return nil, absent("nodes", "") }

// PatchNodeStatus finds none.
func (Offline) PatchNodeStatus(context.Context, []byte) (*v1.Node, error) {
	return nil, absent("nodes", "")
}

// RunLease has nobody to tell that the node lives.
func (Offline) RunLease(context.Context, int32) {}

// PodEvent prints the event.
func (Offline) PodEvent(p *v1.Pod, container, _, reason, message string) {
	klog.Background().Info("Event", "pod", klog.KObj(p), "container", container, "reason", reason, "message", message)
}

// NodeEvent prints the event.
func (Offline) NodeEvent(_, reason, message string) {
	klog.Background().Info("Event", "reason", reason, "message", message)
}

// ConfigMap finds none.
func (Offline) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	return nil, absent("configmaps", name)
}

// Secret finds none.
func (Offline) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	return nil, absent("secrets", name)
}
