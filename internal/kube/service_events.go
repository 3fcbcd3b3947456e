package kube

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// ServiceEvents writes events on services, of which the writer knows only names.
type ServiceEvents struct {
	client      kubernetes.Interface
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	queue       chan serviceEvent
	done        chan struct{}
	dropped     atomic.Int64
}

type serviceEvent struct {
	namespace, name, kind, reason, text string
}

const (
	// serviceEventQueue is how many events wait while the API server is away; further ones are dropped and counted.
	serviceEventQueue = 256
	lookupLimit       = 5 * time.Second
)

// NewServiceEvents starts writing events that come from component on node. It ends with ctx; Close waits for that.
func NewServiceEvents(ctx context.Context, client kubernetes.Interface, component, node string) *ServiceEvents {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	e := &ServiceEvents{client: client, broadcaster: b, queue: make(chan serviceEvent, serviceEventQueue), done: make(chan struct{}),
		recorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component, Host: node})}
	go e.run(ctx)
	return e
}

// Event writes one about a service, namespace/name. It does not block.
func (e *ServiceEvents) Event(service string, warning bool, reason, text string) {
	event := serviceEvent{kind: corev1.EventTypeNormal, reason: reason, text: text}
	if warning {
		event.kind = corev1.EventTypeWarning
	}
	event.namespace, event.name, _ = strings.Cut(service, "/")
	select {
	case e.queue <- event:
	default:
		e.dropped.Add(1)
	}
}

// Dropped counts the events that found the queue full.
func (e *ServiceEvents) Dropped() int64 { return e.dropped.Load() }

// Close stops recording, after the context of NewServiceEvents has ended.
func (e *ServiceEvents) Close() {
	<-e.done
	e.broadcaster.Shutdown()
}

func (e *ServiceEvents) run(ctx context.Context) {
	defer close(e.done)
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.queue:
			about, exists := e.reference(ctx, event)
			if exists {
				e.recorder.Event(about, event.kind, event.reason, event.text)
			}
		}
	}
}

// reference looks the service up for its uid, by which `kubectl describe service` finds events. A service proxy may list
// services and not get one (cluster role system:node-proxier). Without an answer the event goes without a uid; exists is
// false when the service is known to be gone.
func (e *ServiceEvents) reference(ctx context.Context, event serviceEvent) (about *corev1.ObjectReference, exists bool) {
	about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: event.namespace, Name: event.name}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	list, err := e.client.CoreV1().Services(event.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", event.name).String()})
	if err != nil {
		return about, true
	}
	for i := range list.Items {
		if s := &list.Items[i]; s.Name == event.name {
			about.UID = s.UID
			return about, true
		}
	}
	return about, false
}

// toBeDeleted is the taint by which the cluster autoscaler announces that it removes a node.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// OwnNode follows the node that a program runs on.
type OwnNode struct {
	state   atomic.Pointer[ownNode]
	changed chan struct{}
}

type ownNode struct {
	eligible  bool
	addresses []string
	internal  []netip.Addr
}

// WatchOwnNode starts following a node and returns at once; it ends with ctx.
func WatchOwnNode(ctx context.Context, client kubernetes.Interface, name string) (*OwnNode, error) {
	own := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			own(&o)
			return client.CoreV1().Nodes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			own(&o)
			return client.CoreV1().Nodes().Watch(ctx, o)
		},
	}
	n := &OwnNode{changed: make(chan struct{}, 1)}
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), &corev1.Node{}, 0)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.set(obj, name) },
		UpdateFunc: func(_, obj any) { n.set(obj, name) },
		DeleteFunc: func(any) { n.state.Store(&ownNode{internal: n.InternalIPs()}) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching node %s: %w", name, err)
	}
	go informer.RunWithContext(ctx)
	return n, nil
}

func (n *OwnNode) set(obj any, name string) {
	node, ok := obj.(*corev1.Node)
	if !ok || node.Name != name {
		return
	}
	s := &ownNode{eligible: node.DeletionTimestamp.IsZero()}
	for _, t := range node.Spec.Taints {
		s.eligible = s.eligible && t.Key != toBeDeleted
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			s.addresses = append(s.addresses, a.Address)
		}
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			s.internal = append(s.internal, addr.Unmap())
		}
	}
	old := n.InternalIPs()
	if len(s.internal) == 0 {
		s.internal = old
	}
	n.state.Store(s)
	if !slices.Equal(old, s.internal) {
		select {
		case n.changed <- struct{}{}:
		default: // a wake-up is waiting already
		}
	}
}

// Eligible says whether the node may have traffic from outside: it is there, is not being deleted, and the cluster
// autoscaler does not mean to remove it. A node that could not be looked at yet is eligible.
func (n *OwnNode) Eligible() bool {
	s := n.state.Load()
	return s == nil || s.eligible
}

// Changed wakes whoever follows the InternalIPs; one reader.
func (n *OwnNode) Changed() <-chan struct{} { return n.changed }

// InternalIPs gives the node's own addresses, in the order of the API; none while they are not known. A node that is
// deleted, or that is said to have none, keeps its last ones: they are this host's all the same.
func (n *OwnNode) InternalIPs() []netip.Addr {
	if s := n.state.Load(); s != nil {
		return s.internal
	}
	return nil
}

// Addresses gives the node's addresses, internal ones first as the API has them; none while they are not known.
func (n *OwnNode) Addresses() []string {
	if s := n.state.Load(); s != nil {
		return s.addresses
	}
	return nil
}
