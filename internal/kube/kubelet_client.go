package kube

import (
	"context"
	"fmt"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"

	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/internal/winbuild"
)

// Kubelet is the API as one node's kubelet sees it. It implements the interfaces of package kubelet and of its volumes.
type Kubelet struct {
	node     string
	client   kubernetes.Interface
	leases   kubernetes.Interface
	reviews  kubernetes.Interface
	recorder record.EventRecorder
	events   record.EventBroadcaster
	sink     *lateSink
	services cache.SharedIndexInformer
	classes  runtimeClasses
	drivers  csiDrivers
	closed   chan struct{} // closed by Close
	*Objects
	resources
}

// Rate limits requests to the API server: QPS each second, and Burst at once. With a QPS of 0 there is no limit.
type Rate struct{ QPS, Burst int32 }

// NewKubelet makes the kubelet's clients from cfg: one for objects, one for events with a limit of their own, one
// without a limit for the lease, which must get through whatever else goes on, and one for questions about those who
// use the kubelet's port, so that these wait for nobody else and nobody for them.
func NewKubelet(cfg *rest.Config, node string, eventRate Rate) (*Kubelet, error) {
	client, err := typed(cfg)
	if err != nil {
		return nil, err
	}
	evCfg := rest.CopyConfig(cfg)
	leaseCfg := rest.CopyConfig(cfg)
	evCfg.QPS = float32(eventRate.QPS)
	evCfg.Burst = int(eventRate.Burst)
	if eventRate.QPS == 0 {
		evCfg.QPS = -1 // client-go takes 0 for its own default
	}
	leaseCfg.QPS, leaseCfg.Timeout = -1, 10*time.Second
	eventClient, err := typed(evCfg)
	if err != nil {
		return nil, err
	}

	leases, err := typed(leaseCfg)
	if err != nil {
		return nil, err
	}
	reviews, err := typed(leaseCfg) // its callers bound their questions
	if err != nil {
		return nil, err
	}
	b := record.NewBroadcaster()
	sink := newLateSink(networkapi.DistinctEvents(&typedv1.EventSinkImpl{Interface: eventClient.CoreV1().Events("")}))
	b.StartRecordingToSink(sink)
	lw := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "services", metav1.NamespaceAll,
		fields.OneTermNotEqualSelector("spec.clusterIP", v1.ClusterIPNone))
	services := cache.NewSharedIndexInformer(lw, &v1.Service{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return &Kubelet{closed: make(chan struct{}), node: node, client: client, leases: leases, reviews: reviews,
		events: b, sink: sink, services: services,
		recorder: b.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: node}),
		Objects:  NewObjects(client, node), resources: resources{client, node}}, nil
}

// Reviewer asks about tokens and rights, with a client of its own.
func (k *Kubelet) Reviewer() Reviewer { return Reviewer{Client: k.reviews} }

// Close sends the last events.
func (k *Kubelet) Close() {
	close(k.closed)
	close(k.sink.closed)
	k.events.Shutdown()
}

// Pods watches the pods that are bound to the node. It calls changed for each pod that is new or different, and gone
// for each that was removed, both from one goroutine; they must not block. synced reports whether every pod has been
// delivered once.
func (k *Kubelet) Pods(ctx context.Context, changed, gone func(*v1.Pod)) (synced func() bool) {
	lw := cache.NewListWatchFromClient(k.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", k.node))
	informer := cache.NewSharedInformer(lw, &v1.Pod{}, 0)
	reg, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { changed(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if p, ok := o.(*v1.Pod); ok {
				gone(p)
			}
		},
	})
	if err != nil { // only a stopped informer returns an error
		return func() bool { return false }
	}
	go informer.RunWithContext(ctx)
	return reg.HasSynced
}

// WatchServices starts the watch that Services reads. synced reports whether its first list is complete.
func (k *Kubelet) WatchServices(ctx context.Context) (synced func() bool) {
	go k.services.RunWithContext(ctx)
	return k.services.HasSynced
}

// Services returns the services of a namespace, and `kubernetes` of the default one. Before WatchServices it returns
// none.
func (k *Kubelet) Services(namespace string) []*v1.Service {
	var out []*v1.Service
	list, _ := k.services.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	for _, o := range list {
		out = append(out, o.(*v1.Service))
	}
	if namespace != metav1.NamespaceDefault {
		if o, ok, _ := k.services.GetStore().GetByKey("default/kubernetes"); ok {
			out = append(out, o.(*v1.Service))
		}
	}
	return out
}

// WatchNode calls changed with each version of the node's own object.
func (k *Kubelet) WatchNode(ctx context.Context, changed func(*v1.Node)) {
	lw := cache.NewListWatchFromClient(k.client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		fields.OneTermEqualSelector("metadata.name", k.node))
	informer := cache.NewSharedInformer(lw, &v1.Node{}, 0)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(o.(*v1.Node)) },
		UpdateFunc: func(_, o any) { changed(o.(*v1.Node)) },
	})
	go informer.RunWithContext(ctx)
}

// PatchPodStatus sends a strategic merge patch of a pod's status and returns the pod as it is then.
func (k *Kubelet) PatchPodStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.Pod, error) {
	return k.client.CoreV1().Pods(namespace).
		Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// CreatePod creates a pod: the mirror of a static pod.
func (k *Kubelet) CreatePod(ctx context.Context, p *v1.Pod) (*v1.Pod, error) {
	return k.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
}

// DeletePod deletes a pod without a grace period, if it still has that UID.
func (k *Kubelet) DeletePod(ctx context.Context, namespace, name string, uid types.UID) error {
	zero := int64(0)
	return k.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero,
		Preconditions: &metav1.Preconditions{UID: &uid}})
}

// GetNode returns the node's own object.
func (k *Kubelet) GetNode(ctx context.Context) (*v1.Node, error) {
	return k.client.CoreV1().Nodes().Get(ctx, k.node, metav1.GetOptions{})
}

// CreateNode registers the node.
func (k *Kubelet) CreateNode(ctx context.Context, n *v1.Node) (*v1.Node, error) {
	return k.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
}

// PatchNode sends a strategic merge patch of the node's metadata.
func (k *Kubelet) PatchNode(ctx context.Context, patch []byte) (*v1.Node, error) {
	return k.client.CoreV1().Nodes().Patch(ctx, k.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// PatchNodeStatus sends a strategic merge patch of the node's status.
func (k *Kubelet) PatchNodeStatus(ctx context.Context, patch []byte) (*v1.Node, error) {
	return k.client.CoreV1().Nodes().
		Patch(ctx, k.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// RunLease renews the node's lease every quarter of its duration until ctx ends.
func (k *Kubelet) RunLease(ctx context.Context, seconds int32) {
	renew := time.Duration(seconds) * time.Second / 4
	owner := func(l *coordv1.Lease) error {
		if len(l.OwnerReferences) > 0 {
			return nil
		}
		n, err := k.leases.CoreV1().Nodes().Get(ctx, k.node, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading node %s for its lease: %w", k.node, err)
		}
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		return nil
	}
	lease.NewController(clock.RealClock{}, k.leases, k.node, seconds, nil, renew, k.node, v1.NamespaceNodeLease, owner).
		Run(ctx)
}

// PodEvent records an event about pod p. If container is not empty, the event's field path points at that container in
// the init, regular or ephemeral list.
func (k *Kubelet) PodEvent(p *v1.Pod, container, eventType, reason, message string) {
	ref := &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.ResourceVersion}
	if container != "" {
		field := "containers"
		for _, c := range p.Spec.InitContainers {
			if c.Name == container {
				field = "initContainers"
			}
		}
		for _, c := range p.Spec.EphemeralContainers {
			if c.Name == container {
				field = "ephemeralContainers"
			}
		}
		ref.FieldPath = fmt.Sprintf("spec.%s{%s}", field, container)
	}
	k.sink.noteEvent(time.Now())
	k.recorder.Event(ref, eventType, reason, message)
}

// AnnotatedPodEvent records an event about pod p that carries annotations.
func (k *Kubelet) AnnotatedPodEvent(p *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	ref := &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.ResourceVersion}
	k.sink.noteEvent(time.Now())
	k.recorder.AnnotatedEventf(ref, annotations, eventType, reason, "%s", message)
}

// NodeEvent records an event about the node. Upstream uses the node's name as UID, and so do we.
func (k *Kubelet) NodeEvent(eventType, reason, message string) {
	k.recorder.Event(&v1.ObjectReference{Kind: "Node", Name: k.node, UID: types.UID(k.node)}, eventType, reason,
		message)
}

// ServiceAccount reads a service account.
func (k *Kubelet) ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return k.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// RequestToken requests a token of a service account.
func (k *Kubelet) RequestToken(ctx context.Context, namespace, account string,
	req *authv1.TokenRequest) (*authv1.TokenRequest, error) {
	return k.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, req, metav1.CreateOptions{})
}

// WindowsHosts lists the cluster's Windows nodes. Since Kubernetes 1.32 a kubelet needs a role of its own for that;
// without one the error is Forbidden.
func (k *Kubelet) WindowsHosts(ctx context.Context) ([]winbuild.Host, error) {
	return WindowsHosts(ctx, k.client)
}
