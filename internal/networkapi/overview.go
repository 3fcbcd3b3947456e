package networkapi

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"porthole.dev/porthole/internal/apiconn"
)

// Overview watches what people look at: nodes, pods, services, endpoint slices and events, each with the fields that
// are shown. It only reads.
type Overview struct {
	client                                *Client
	nodes, pods, services, slices, events cache.SharedIndexInformer
}

// NewOverview returns an Overview of the cluster that a kubeconfig names. It sends nothing before Run. changed is
// called after each change, and must not block.
func NewOverview(kubeconfig string, changed func()) (*Overview, error) {
	client, _, err := New(apiconn.Options{Kubeconfig: kubeconfig, UserAgent: "porthole-web", QPS: 50, Burst: 200})
	if err != nil {
		return nil, err
	}
	o := &Overview{client: client, nodes: overviewOf(client, client.Nodes, &corev1.Node{}),
		pods:     overviewOf(client, client.Pods, &corev1.Pod{}),
		services: overviewOf(client, client.Services(""), &corev1.Service{}),
		slices:   overviewOf(client, client.Slices, &discoveryv1.EndpointSlice{}),
		events:   overviewOf(client, client.AllEvents, &corev1.Event{})}

	for _, i := range o.informers() {
		if err := i.SetTransform(trimForOverview); err != nil {
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
	return o, nil
}

func overviewOf[L runtime.Object](client *Client, kind Lister[L], example runtime.Object) cache.SharedIndexInformer {
	lw := listWatch(func(*metav1.ListOptions) {}, kind)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), example, 0,
		cache.Indexers{})
}

func (o *Overview) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{o.nodes, o.pods, o.services, o.slices, o.events}
}

// Run watches until ctx ends.
func (o *Overview) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	for _, i := range o.informers() {
		tasks.Go(func() { i.RunWithContext(ctx) })
	}
	tasks.Wait()
}

// Synced reports whether the first lists are complete. Until then nothing may be concluded from what is not there.
func (o *Overview) Synced() bool {
	for _, i := range o.informers() {
		if !i.HasSynced() {
			return false
		}
	}
	return true
}

// Ready returns nil if the API server answers that it is ready.
func (o *Overview) Ready(ctx context.Context) error { return o.client.Ready(ctx) }

// AskNode reads a path of a node's kubelet through the API server, which needs the right to get nodes/proxy. The path
// may have a query.
func (o *Overview) AskNode(ctx context.Context, node, path string) ([]byte, error) {
	return o.client.AskNode(ctx, node, path)
}

func stored[T any](i cache.SharedIndexInformer) []T {
	objects := i.GetStore().List()
	list := make([]T, 0, len(objects))
	for _, obj := range objects {
		if o, ok := obj.(T); ok {
			list = append(list, o)
		}
	}
	return list
}

// Nodes, Pods, Services, Slices and Events return the objects as last seen, which must not be changed.
func (o *Overview) Nodes() []*corev1.Node       { return stored[*corev1.Node](o.nodes) }
func (o *Overview) Pods() []*corev1.Pod         { return stored[*corev1.Pod](o.pods) }
func (o *Overview) Services() []*corev1.Service { return stored[*corev1.Service](o.services) }
func (o *Overview) Events() []*corev1.Event     { return stored[*corev1.Event](o.events) }
func (o *Overview) Slices() []*discoveryv1.EndpointSlice {
	return stored[*discoveryv1.EndpointSlice](o.slices)
}

// trimForOverview drops what is not shown: of 2,000 pods that is most of the memory. Secrets of environments are among
// it.
func trimForOverview(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: metaForOverview(&o.ObjectMeta),
			Spec: corev1.NodeSpec{PodCIDR: o.Spec.PodCIDR, PodCIDRs: o.Spec.PodCIDRs,
				Unschedulable: o.Spec.Unschedulable},
			Status: corev1.NodeStatus{Addresses: o.Status.Addresses, Conditions: trimConditions(o.Status.Conditions),
				NodeInfo: o.Status.NodeInfo}}, nil
	case *corev1.Pod:
		return podForOverview(o), nil
	case *corev1.Service:
		trimmed := &corev1.Service{ObjectMeta: metaForOverview(&o.ObjectMeta), Spec: o.Spec, Status: o.Status}
		return trimmed, nil
	case *discoveryv1.EndpointSlice:
		o.ManagedFields, o.Annotations = nil, nil
	case *corev1.Event:
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID,
			ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp},
			InvolvedObject: corev1.ObjectReference{Kind: o.InvolvedObject.Kind, Namespace: o.InvolvedObject.Namespace,
				Name: o.InvolvedObject.Name, UID: o.InvolvedObject.UID, FieldPath: o.InvolvedObject.FieldPath},
			Type: o.Type, Reason: o.Reason, Message: o.Message, Count: o.Count,
			FirstTimestamp: o.FirstTimestamp, LastTimestamp: o.LastTimestamp,
			EventTime: o.EventTime, Series: o.Series, Source: o.Source}, nil
	}
	return obj, nil
}

func metaForOverview(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels:            m.Labels,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		OwnerReferences: m.OwnerReferences}
}

// trimConditions leaves out when a condition was last reported: kubelets report each five minutes, and nothing is
// shown of it.
func trimConditions(list []corev1.NodeCondition) []corev1.NodeCondition {
	out := make([]corev1.NodeCondition, len(list))
	for i, c := range list {
		c.LastHeartbeatTime = metav1.Time{}
		out[i] = c
	}
	return out
}

func podForOverview(p *corev1.Pod) *corev1.Pod {
	trimmed := &corev1.Pod{ObjectMeta: metaForOverview(&p.ObjectMeta),
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork,
			NodeSelector: p.Spec.NodeSelector, OS: p.Spec.OS,
			Containers: trimContainers(p.Spec.Containers), InitContainers: trimContainers(p.Spec.InitContainers)},
		Status: corev1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message,
			PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs,
			StartTime: p.Status.StartTime, Conditions: p.Status.Conditions,
			InitContainerStatuses: p.Status.InitContainerStatuses, ContainerStatuses: p.Status.ContainerStatuses}}
	for _, v := range p.Spec.Volumes { // the names only, for the time line
		trimmed.Spec.Volumes = append(trimmed.Spec.Volumes, corev1.Volume{Name: v.Name})
	}
	return trimmed
}

func trimContainers(list []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range list {
		out = append(out, corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy,
			Ports: c.Ports})
	}
	return out
}

// IsNotFound reports whether an error says that an object, or a path of a node's kubelet, is not there.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }
