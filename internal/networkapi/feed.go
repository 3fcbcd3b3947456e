package networkapi

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
)

// ownServices selects the services that this proxy serves: no label names another proxy, and they are not headless.
// Their slices have the same labels.
const ownServices = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless"

// ServiceSink takes in what a service proxy needs; proxy/service's Tracker is one. It must not keep the objects.
type ServiceSink interface {
	SetService(*corev1.Service)
	RemoveService(namespace, name string)
	SetSlice(*discoveryv1.EndpointSlice)
	RemoveSlice(namespace, name string)
	// ServiceNames and SliceNames return what was set and not removed, as namespace/name. A sink may leave out what it
	// does not need.
	ServiceNames() []string
	SliceNames() []string
}

// ServiceFeed brings services, endpoint slices and one node from the API server into a sink. It does not keep them: a
// proxy of 10,000 services would otherwise hold every object twice. After an interruption the reflectors list again,
// and what is not listed any more is removed from the sink.
type ServiceFeed struct {
	changed wakeup.Signal
	synced  []func() bool
}

// FeedServices starts watching and returns at once; it ends with ctx. node is the name of the proxy's own node; onNode
// is called with it, and at each change of its labels.
func FeedServices(ctx context.Context, client *Client, node string, sink ServiceSink,
	onNode func(*corev1.Node)) *ServiceFeed {
	f := &ServiceFeed{changed: wakeup.New()}
	ours := func(o *metav1.ListOptions) { o.LabelSelector = ownServices }
	start(ctx, f, client, listWatch(ours, client.Services("")), &reflected[*corev1.Service]{
		example: &corev1.Service{}, trim: trimService, set: sink.SetService, remove: sink.RemoveService,
		names: sink.ServiceNames})
	start(ctx, f, client, listWatch(ours, client.Slices),
		&reflected[*discoveryv1.EndpointSlice]{
			example: &discoveryv1.EndpointSlice{}, trim: newSliceTrimmer(), set: sink.SetSlice,
			remove: sink.RemoveSlice, names: sink.SliceNames})
	own := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", node).String()
	}
	labels := nodeLabels{tell: onNode}
	start(ctx, f, client, listWatch(own, client.Nodes), &reflected[*corev1.Node]{
		example: &corev1.Node{}, trim: trimToLabels, setIfNew: labels.set, remove: func(_, _ string) {},
		names: func() []string { return nil }})
	return f
}

// Changed receives when the sink was changed. It is for one reader.
func (f *ServiceFeed) Changed() <-chan struct{} { return f.changed }

// Synced reports whether the sink has been given everything once.
func (f *ServiceFeed) Synced() bool {
	for _, synced := range f.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// listWatch lists and watches the objects that tweak selects, for a reflector.
func listWatch[L runtime.Object](tweak func(*metav1.ListOptions), kind Lister[L]) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			return kind.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			return kind.Watch(ctx, o)
		},
	}
}

func start[T object](ctx context.Context, f *ServiceFeed, client *Client, lw *cache.ListWatch, r *reflected[T]) {
	r.wake = f.changed.Wake
	f.synced = append(f.synced, r.synced.Load)
	logger := klog.FromContext(ctx)
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), r.example, r,
		cache.ReflectorOptions{Logger: &logger})
	go reflector.RunWithContext(ctx)
}

type object interface {
	runtime.Object
	metav1.Object
}

// reflected is the store of a reflector: it passes objects on. It is not safe for concurrent use; a reflector has one
// goroutine.
type reflected[T object] struct {
	example  T
	trim     func(T)
	set      func(T)
	setIfNew func(T) bool // in place of set: reports whether anything changed
	remove   func(namespace, name string)
	names    func() []string // those that were set and not removed, as namespace/name
	wake     func()
	synced   atomic.Bool
}

var _ cache.TransformingStore = (*reflected[*corev1.Service])(nil)

// Transformer returns a function that drops unused fields while a list is still being received.
func (r *reflected[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if o, ok := obj.(T); ok {
			r.trim(o)
		}
		return obj, nil
	}
}

// put returns false if the object has nothing new.
func (r *reflected[T]) put(obj any) bool {
	o, ok := obj.(T)
	if !ok {
		return false
	}
	if r.setIfNew != nil {
		return r.setIfNew(o)
	}
	r.set(o)
	return true
}

// Add takes in a new object.
func (r *reflected[T]) Add(obj any) error { return r.Update(obj) }

// Update takes in a changed object.
func (r *reflected[T]) Update(obj any) error {
	if r.put(obj) {
		r.wake()
	}
	return nil
}

// Delete removes an object, which may come as a tombstone.
func (r *reflected[T]) Delete(obj any) error {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return err
	}
	r.remove(name.Namespace, name.Name)
	r.wake()
	return nil
}

// Replace takes in a list of everything.
func (r *reflected[T]) Replace(list []any, _ string) error {
	listed := make(map[string]bool, len(list))
	for _, obj := range list {
		r.put(obj)
		if o, ok := obj.(T); ok {
			listed[o.GetNamespace()+"/"+o.GetName()] = true
		}
	}
	for _, name := range r.names() {
		if !listed[name] {
			namespace, name, _ := strings.Cut(name, "/")
			r.remove(namespace, name)
		}
	}
	r.synced.Store(true)
	r.wake()
	return nil
}

// Resync does nothing: the sink keeps its state.
func (r *reflected[T]) Resync() error { return nil }

// nodeLabels passes a node on if its labels changed. Its status changes all the time.
type nodeLabels struct {
	tell  func(*corev1.Node)
	known bool
	last  map[string]string
}

func (n *nodeLabels) set(node *corev1.Node) bool {
	if n.known && maps.Equal(n.last, node.Labels) {
		return false
	}
	n.known, n.last = true, node.Labels
	n.tell(node)
	return true
}

func trimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	m.OwnerReferences = nil
	m.Finalizers = nil
	m.GenerateName = ""
	m.UID = ""
}

func trimService(s *corev1.Service) {
	trimMeta(&s.ObjectMeta)
	delete(s.Annotations, corev1.LastAppliedConfigAnnotation)
	s.Spec.Selector, s.Status.Conditions = nil, nil
}

func trimToLabels(n *corev1.Node) {
	trimMeta(&n.ObjectMeta)
	n.Annotations = nil
	n.Spec = corev1.NodeSpec{}
	n.Status = corev1.NodeStatus{}
}

// newSliceTrimmer returns a function that drops fields which no proxy reads. It shares node names and conditions,
// which have few values.
func newSliceTrimmer() func(*discoveryv1.EndpointSlice) {
	nodes := map[string]*string{}
	yes, no := true, false
	share := func(b *bool) *bool {
		switch {
		case b == nil:
			return nil
		case *b:
			return &yes
		}
		return &no
	}

	return func(s *discoveryv1.EndpointSlice) {
		trimMeta(&s.ObjectMeta)
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			e.TargetRef = nil
			e.Hostname = nil
			e.DeprecatedTopology = nil
			e.Zone = nil
			e.Conditions.Ready, e.Conditions.Serving, e.Conditions.Terminating =
				share(e.Conditions.Ready), share(e.Conditions.Serving), share(e.Conditions.Terminating)
			if e.NodeName == nil {
				continue
			}
			if nodes[*e.NodeName] == nil {
				nodes[*e.NodeName] = e.NodeName
			}
			e.NodeName = nodes[*e.NodeName]
		}
	}
}
