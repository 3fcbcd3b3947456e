package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Overview watches what people look at: nodes, pods, services, endpoint slices and events, each with the fields that are shown. It only reads.
type Overview struct {
	client                                kubernetes.Interface
	factory                               informers.SharedInformerFactory
	nodes, pods, services, slices, events cache.SharedIndexInformer
}

// NewOverview returns an Overview of the cluster that a kubeconfig names. It sends nothing before Run. changed is called after each change,
// and must not block.
func NewOverview(kubeconfig string, changed func()) (*Overview, error) {
	client, _, err := Load(kubeconfig, "porthole-web", 20, 50)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	o := &Overview{client: client, factory: factory, nodes: core.Nodes().Informer(), pods: core.Pods().Informer(), services: core.Services().Informer(),
		slices: factory.Discovery().V1().EndpointSlices().Informer(), events: core.Events().Informer()}

	for _, i := range o.informers() {
		if err := i.SetTransform(trimForOverview); err != nil {
			return nil, fmt.Errorf("following the cluster: %w", err)
		}
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
		})
		if err != nil {
			return nil, fmt.Errorf("following the cluster: %w", err)
		}
	}
	return o, nil
}

func (o *Overview) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{o.nodes, o.pods, o.services, o.slices, o.events}
}

// Run watches until ctx ends.
func (o *Overview) Run(ctx context.Context) {
	o.factory.Start(ctx.Done())
	<-ctx.Done()
	o.factory.Shutdown()
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
func (o *Overview) Ready(ctx context.Context) error {
	return o.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// AskNode reads a path of a node's kubelet through the API server, which needs the right to get nodes/proxy.
func (o *Overview) AskNode(ctx context.Context, node, path string) ([]byte, error) {
	return nodeProxy(o.client.CoreV1().RESTClient(), node, path).Do(ctx).Raw()
}

func nodeProxy(client rest.Interface, node, path string) *rest.Request {
	return client.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(path)
}

// Nodes, Pods, Services, Slices and Events return the objects as last seen, which must not be changed.
func (o *Overview) Nodes() []*corev1.Node       { return stored[*corev1.Node](o.nodes) }
func (o *Overview) Pods() []*corev1.Pod         { return stored[*corev1.Pod](o.pods) }
func (o *Overview) Services() []*corev1.Service { return stored[*corev1.Service](o.services) }
func (o *Overview) Events() []*corev1.Event     { return stored[*corev1.Event](o.events) }
func (o *Overview) Slices() []*discoveryv1.EndpointSlice {
	return stored[*discoveryv1.EndpointSlice](o.slices)
}

// trimForOverview drops what is not shown: of 2,000 pods that is most of the memory. Secrets of environments are among it.
func trimForOverview(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: trimMeta(&o.ObjectMeta), Spec: corev1.NodeSpec{PodCIDR: o.Spec.PodCIDR, PodCIDRs: o.Spec.PodCIDRs, Unschedulable: o.Spec.Unschedulable},
			Status: corev1.NodeStatus{Addresses: o.Status.Addresses, Conditions: trimConditions(o.Status.Conditions), NodeInfo: o.Status.NodeInfo}}, nil
	case *corev1.Pod:
		return trimPod(o), nil
	case *corev1.Service:
		trimmed := &corev1.Service{ObjectMeta: trimMeta(&o.ObjectMeta), Spec: o.Spec, Status: o.Status}
		return trimmed, nil
	case *discoveryv1.EndpointSlice:
		o.ManagedFields, o.Annotations = nil, nil
	case *corev1.Event:
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp},
			InvolvedObject: corev1.ObjectReference{Kind: o.InvolvedObject.Kind, Namespace: o.InvolvedObject.Namespace, Name: o.InvolvedObject.Name, UID: o.InvolvedObject.UID, FieldPath: o.InvolvedObject.FieldPath},
			Type:           o.Type, Reason: o.Reason, Message: o.Message, Count: o.Count, FirstTimestamp: o.FirstTimestamp, LastTimestamp: o.LastTimestamp,
			EventTime: o.EventTime, Series: o.Series, Source: o.Source}, nil
	}
	return obj, nil
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: m.OwnerReferences}
}

// trimConditions leaves out when a condition was last reported: kubelets report each five minutes, and nothing is shown of it.
func trimConditions(list []corev1.NodeCondition) []corev1.NodeCondition {
	out := make([]corev1.NodeCondition, len(list))
	for i, c := range list {
		c.LastHeartbeatTime = metav1.Time{}
		out[i] = c
	}
	return out
}

func trimPod(p *corev1.Pod) *corev1.Pod {
	trimmed := &corev1.Pod{ObjectMeta: trimMeta(&p.ObjectMeta),
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork, NodeSelector: p.Spec.NodeSelector, OS: p.Spec.OS,
			Containers: trimContainers(p.Spec.Containers), InitContainers: trimContainers(p.Spec.InitContainers)},
		Status: corev1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs,
			StartTime: p.Status.StartTime, Conditions: p.Status.Conditions, InitContainerStatuses: p.Status.InitContainerStatuses, ContainerStatuses: p.Status.ContainerStatuses}}
	for _, v := range p.Spec.Volumes { // the names only, for the time line
		trimmed.Spec.Volumes = append(trimmed.Spec.Volumes, corev1.Volume{Name: v.Name})
	}
	return trimmed
}

func trimContainers(list []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range list {
		out = append(out, corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy, Ports: c.Ports})
	}
	return out
}

// IsNotFound reports whether an error says that an object, or a path of a node's kubelet, is not there.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }
