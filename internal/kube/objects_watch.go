package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// Everything watches what a controller of the whole cluster's network needs: nodes, pods, services and endpoint
// slices, each without the fields that no network depends on.
type Everything struct {
	client                        kubernetes.Interface
	nodes, pods, services, slices cache.SharedIndexInformer
	events                        record.EventBroadcaster
	recorder                      record.EventRecorder
}

// NewEverything returns an Everything that does nothing before Run. changed is called after each change, and must not
// block. component is the source of its events.
func NewEverything(ctx context.Context, client kubernetes.Interface, component string, changed func()) (*Everything,
	error) {
	core := client.CoreV1().RESTClient()
	discovery := client.DiscoveryV1().RESTClient()
	e := &Everything{
		client: client,
		nodes:  informer(core, "nodes", &corev1.Node{}), pods: informer(core, "pods", &corev1.Pod{}),
		services: informer(core, "services", &corev1.Service{}),
		slices:   informer(discovery, "endpointslices", &discoveryv1.EndpointSlice{}),
	}

	for _, i := range e.informers() {
		if err := i.SetTransform(trimForNetwork); err != nil {
			return nil, fmt.Errorf("following the cluster: %w", err)
		}
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		})
		if err != nil {
			return nil, fmt.Errorf("following the cluster: %w", err)
		}
	}

	e.events = record.NewBroadcaster(record.WithContext(ctx))
	e.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	e.recorder = e.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	return e, nil
}

// informer watches all objects of a kind. It takes the place of client-go's informer factory, which imports a package
// for each API group: 114 more to compile.
func informer(client rest.Interface, resource string, kind runtime.Object) cache.SharedIndexInformer {
	all := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
	return cache.NewSharedIndexInformer(all, kind, 0, cache.Indexers{})
}

func (e *Everything) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{e.nodes, e.pods, e.services, e.slices}
}

// trimForNetwork drops what no network depends on.
func trimForNetwork(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Node:
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
				CreationTimestamp: o.CreationTimestamp,
				Labels:            map[string]string{corev1.LabelOSStable: o.Labels[corev1.LabelOSStable]}},
			Spec:   corev1.NodeSpec{PodCIDR: o.Spec.PodCIDR, PodCIDRs: o.Spec.PodCIDRs},
			Status: corev1.NodeStatus{Addresses: o.Status.Addresses},
		}, nil
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID,
				ResourceVersion: o.ResourceVersion,
				Annotations:     o.Annotations, OwnerReferences: o.OwnerReferences},
			Spec:   corev1.PodSpec{NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork},
			Status: corev1.PodStatus{Phase: o.Status.Phase, PodIP: o.Status.PodIP},
		}, nil
	case *corev1.Service:
		trimmed := o.DeepCopy()
		trimmed.ManagedFields, trimmed.Annotations = nil, nil
		return trimmed, nil
	case *discoveryv1.EndpointSlice:
		o.ManagedFields, o.Annotations = nil, nil
	}
	return obj, nil
}

// Run watches until ctx ends.
func (e *Everything) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, i := range e.informers() {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	running.Wait()
	e.events.Shutdown()
}

// Synced reports whether the first lists are complete. Until then nothing may be concluded from what is not there.
func (e *Everything) Synced() bool {
	for _, i := range e.informers() {
		if !i.HasSynced() {
			return false
		}
	}
	return true
}

func stored[T any](i cache.SharedIndexInformer) []T {
	var list []T
	for _, obj := range i.GetStore().List() {
		if o, ok := obj.(T); ok {
			list = append(list, o)
		}
	}
	return list
}

// Nodes, Pods, Services and Slices return the objects as last seen, which must not be changed.
func (e *Everything) Nodes() []*corev1.Node       { return stored[*corev1.Node](e.nodes) }
func (e *Everything) Pods() []*corev1.Pod         { return stored[*corev1.Pod](e.pods) }
func (e *Everything) Services() []*corev1.Service { return stored[*corev1.Service](e.services) }
func (e *Everything) Slices() []*discoveryv1.EndpointSlice {
	return stored[*discoveryv1.EndpointSlice](e.slices)
}

// AnnotatePod sets an annotation of a pod. It fails if another pod has taken the name.
func (e *Everything) AnnotatePod(ctx context.Context, pod *corev1.Pod, key, value string) error {
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	if _, err := e.client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotating pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// Warn records a warning about an object. It does not block. kind is that of the object: those of a store have none.
func (e *Everything) Warn(kind string, about metav1.Object, reason, message string) {
	ref := &corev1.ObjectReference{Kind: kind, APIVersion: "v1", Namespace: about.GetNamespace(), Name: about.GetName(),
		UID: about.GetUID()}
	if kind == "Node" { // `kubectl describe node` looks for the name in place of the uid
		ref.UID = types.UID(about.GetName())
	}
	e.recorder.Event(ref, corev1.EventTypeWarning, reason, message)
}
