package kube

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Services whose label names another proxy, and headless ones, are none of ours; the same labels are on their slices.
const servicesOfOurs = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless"

// LoadFor is Load with the API server's address given beside (or instead of) a kubeconfig.
func LoadFor(master, kubeconfig, userAgent string, qps float32, burst int) (kubernetes.Interface, *rest.Config, error) {
	if master == "" {
		return Load(kubeconfig, userAgent, qps, burst)
	}
	cfg, err := clientcmd.BuildConfigFromFlags(master, kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("loading kubeconfig %s for %s: %w", kubeconfig, master, err)
	}
	cfg.UserAgent, cfg.QPS, cfg.Burst = userAgent, qps, burst
	client, err := typed(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", master, err)
	}
	return client, cfg, nil
}

// Services watches what a service proxy needs: services, endpoint slices, and the zone of one node.
type Services struct {
	services, slices, nodes cache.SharedIndexInformer
	changed                 chan struct{}
	synced                  atomic.Bool
	node                    string
}

// WatchServices starts watching and returns at once; it ends with ctx. The node is the proxy's own.
func WatchServices(ctx context.Context, client kubernetes.Interface, node string) (*Services, error) {
	s := &Services{changed: make(chan struct{}, 1), node: node}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(dropManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = servicesOfOurs }))
	s.services = factory.Core().V1().Services().Informer()
	s.slices = factory.Discovery().V1().EndpointSlices().Informer()
	own := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(dropManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", node).String()
		}))
	s.nodes = own.Core().V1().Nodes().Informer()
	notify := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.notify() },
		UpdateFunc: func(old, now any) { s.notifyIfChanged(old, now) },
		DeleteFunc: func(any) { s.notify() },
	}
	for _, informer := range []cache.SharedIndexInformer{s.services, s.slices, s.nodes} {
		if _, err := informer.AddEventHandler(notify); err != nil {
			return nil, fmt.Errorf("watching services: %w", err)
		}
	}
	factory.StartWithContext(ctx)
	own.StartWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), s.services.HasSynced, s.slices.HasSynced, s.nodes.HasSynced) {
			s.synced.Store(true)
			s.notify()
		}
	}()
	return s, nil
}

func dropManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

func (s *Services) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // a wake-up is waiting already
	}
}

// notifyIfChanged leaves out the node's own heartbeat: only its labels matter here.
func (s *Services) notifyIfChanged(old, now any) {
	a, isNode := old.(*corev1.Node)
	b, isNode2 := now.(*corev1.Node)
	if isNode && isNode2 && labels.Equals(a.Labels, b.Labels) {
		return
	}
	s.notify()
}

// Changed wakes whoever serves the services; one reader.
func (s *Services) Changed() <-chan struct{} { return s.changed }

// Snapshot gives the objects as they are now, and the node's zone; false until all have arrived once. The objects are
// shared: they must not be changed.
func (s *Services) Snapshot() ([]*corev1.Service, []*discoveryv1.EndpointSlice, string, bool) {
	if !s.synced.Load() {
		return nil, nil, "", false
	}
	zone := ""
	for _, obj := range s.nodes.GetStore().List() {
		if n, ok := obj.(*corev1.Node); ok && n.Name == s.node {
			zone = n.Labels[corev1.LabelTopologyZone]
		}
	}
	return objects[*corev1.Service](s.services), objects[*discoveryv1.EndpointSlice](s.slices), zone, true
}

func objects[T any](informer cache.SharedIndexInformer) []T {
	list := informer.GetStore().List()
	out := make([]T, 0, len(list))
	for _, obj := range list {
		if o, ok := obj.(T); ok {
			out = append(out, o)
		}
	}
	return out
}
