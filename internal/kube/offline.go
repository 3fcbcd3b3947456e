package kube

import (
	"context"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Offline is the API of a kubelet without a cluster: it has no objects, accepts none, and logs events. It has the
// methods of Kubelet that package kubelet calls.
type Offline struct{}

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func complete() bool { return true }

// Pods never calls back and is complete at once.
func (Offline) Pods(context.Context, func(*v1.Pod), func(*v1.Pod)) func() bool { return complete }

// WatchServices is complete at once.
func (Offline) WatchServices(context.Context) func() bool { return complete }

// Services returns nil.
func (Offline) Services(string) []*v1.Service { return nil }

// WatchNode never calls back.
func (Offline) WatchNode(context.Context, func(*v1.Node)) {}

// PatchPodStatus returns a NotFound error.
func (Offline) PatchPodStatus(_ context.Context, _, name string, _ []byte) (*v1.Pod, error) {
	return nil, notFound("pods", name)
}

// CreatePod returns a NotFound error.
func (Offline) CreatePod(_ context.Context, p *v1.Pod) (*v1.Pod, error) {
	return nil, notFound("pods", p.Name)
}

// DeletePod returns a NotFound error.
func (Offline) DeletePod(_ context.Context, _, name string, _ types.UID) error {
	return notFound("pods", name)
}

// RuntimeClass returns a NotFound error.
func (Offline) RuntimeClass(_ context.Context, name string) (*nodev1.RuntimeClass, error) {
	return nil, notFound("runtimeclasses", name)
}

// GetNode returns a NotFound error.
func (Offline) GetNode(context.Context) (*v1.Node, error) { return nil, notFound("nodes", "") }

// CreateNode returns the node that it got.
func (Offline) CreateNode(_ context.Context, n *v1.Node) (*v1.Node, error) { return n, nil }

// PatchNode returns a NotFound error.
func (Offline) PatchNode(context.Context, []byte) (*v1.Node, error) {
	return nil, notFound("nodes", "")
}

// PatchNodeStatus returns a NotFound error.
func (Offline) PatchNodeStatus(context.Context, []byte) (*v1.Node, error) {
	return nil, notFound("nodes", "")
}

// RunLease does nothing: there is no lease to renew.
func (Offline) RunLease(context.Context, int32) {}

// PodEvent logs the event.
func (Offline) PodEvent(p *v1.Pod, container, _, reason, message string) {
	klog.Background().Info("Event", "pod", klog.KObj(p), "container", container, "reason", reason, "message", message)
}

// AnnotatedPodEvent logs the event.
func (Offline) AnnotatedPodEvent(p *v1.Pod, annotations map[string]string, _, reason, message string) {
	klog.Background().Info("Event", "pod", klog.KObj(p), "reason", reason, "message", message, "annotations",
		annotations)
}

// NodeEvent logs the event.
func (Offline) NodeEvent(_, reason, message string) {
	klog.Background().Info("Event", "reason", reason, "message", message)
}

// ConfigMap returns a NotFound error.
func (Offline) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	return nil, notFound("configmaps", name)
}

// Secret returns a NotFound error.
func (Offline) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	return nil, notFound("secrets", name)
}
