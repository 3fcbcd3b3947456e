package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	objectSyncWait = time.Second // how long a read waits for the first state of a watched object
	objectIdle     = time.Minute // how long a watch goes on after its last user
)

// Objects reads ConfigMaps and Secrets from one watch per object in use: a node may not list or watch all of them.
// ClusterTrustBundles, which are few and for everybody, have one watch for all, and PodCertificateRequests one for
// those of this node. A read of an object that is not watched, or that its watch has not delivered yet, is a request
// to the API server.
type Objects struct {
	client kubernetes.Interface
	node   string

	mu   sync.Mutex
	open map[objectKey]*watchedObject
}

type objectKey struct{ kind, namespace, name string }

// watchedObject is one watch. Its store holds the object, or nothing if there is no such object.
type watchedObject struct {
	store  cache.Store
	synced func() bool
	stop   context.CancelFunc

	users map[int]func() // guarded by Objects.mu, as is the rest
	next  int
	idle  *time.Timer
}

// NewObjects makes an empty set of watches for a node.
func NewObjects(client kubernetes.Interface, node string) *Objects {
	return &Objects{client: client, node: node, open: map[objectKey]*watchedObject{}}
}

// Watch watches a ConfigMap or Secret, or all objects of the kind ClusterTrustBundle or PodCertificateRequest, whose
// namespace and name are empty, and calls changed for its first state and after each change. The watch ends a minute
// after its last release, or when the object is immutable.
func (o *Objects) Watch(kind, namespace, name string, changed func()) func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := objectKey{kind, namespace, name}
	w := o.open[key]
	if w == nil {
		w = o.start(key)
		o.open[key] = w
	}
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	w.next++
	id := w.next
	w.users[id] = changed
	return func() { o.release(key, w, id) }
}

// release ends one use of a watch; a second call does nothing. The watch itself goes on for objectIdle, because pods
// of one workload that come and go read the same objects.
func (o *Objects) release(key objectKey, w *watchedObject, id int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, used := w.users[id]; !used {
		return
	}
	delete(w.users, id)
	if len(w.users) > 0 {
		return
	}
	w.idle = time.AfterFunc(objectIdle, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(w.users) == 0 && o.open[key] == w {
			w.stop()
			delete(o.open, key)
		}
	})
}

// start begins to watch one object. The caller holds o.mu. The watch of an immutable object ends after the first
// answer, as nothing can change, and the store keeps what it has.
func (o *Objects) start(key objectKey) *watchedObject {
	ctx, stop := context.WithCancel(context.Background())
	w := &watchedObject{stop: stop, users: map[int]func(){}}
	tell := func(obj any) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, changed := range w.users {
			changed()
		}
		if immutable(obj) {
			stop() // the object stays in the store
		}
	}

	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: o.listWatch(key),
		ObjectType:    emptyObject(key.kind),
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    tell,
			UpdateFunc: func(_, obj any) { tell(obj) },
			DeleteFunc: func(any) { tell(nil) },
		},
	})

	w.store, w.synced = store, controller.HasSynced
	go controller.RunWithContext(ctx)
	return w
}

func emptyObject(kind string) runtime.Object {
	switch kind {
	case trustBundle:
		return &certificatesv1beta1.ClusterTrustBundle{}
	case certificateRequest:
		return &certificatesv1beta1.PodCertificateRequest{}
	case "Secret":
		return &v1.Secret{}
	}
	return &v1.ConfigMap{}
}

func immutable(obj any) bool {
	switch x := obj.(type) {
	case *v1.ConfigMap:
		return x.Immutable != nil && *x.Immutable
	case *v1.Secret:
		return x.Immutable != nil && *x.Immutable
	}
	return false
}

// listWatch lists and watches the one object by its name: this is all that a node's credentials allow (the node
// authorizer).
func (o *Objects) listWatch(key objectKey) cache.ListerWatcher {
	switch key.kind {
	case trustBundle:
		return o.listWatchBundles()
	case certificateRequest:
		return o.listWatchRequests()
	}

	only := func(opts *metav1.ListOptions) {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", key.name).String()
	}
	core := o.client.CoreV1()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			only(&opts)
			if key.kind == "Secret" {
				return core.Secrets(key.namespace).List(ctx, opts)
			}
			return core.ConfigMaps(key.namespace).List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			only(&opts)
			if key.kind == "Secret" {
				return core.Secrets(key.namespace).Watch(ctx, opts)
			}
			return core.ConfigMaps(key.namespace).Watch(ctx, opts)
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(lw, o.client)
}

// ConfigMap reads a ConfigMap. The result is shared: do not change it.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if cm, ok := o.cached(ctx, objectKey{"ConfigMap", namespace, name}).(*v1.ConfigMap); ok {
		return cm, nil
	}
	return o.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Secret reads a Secret. The result is shared: do not change it.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	if s, ok := o.cached(ctx, objectKey{"Secret", namespace, name}).(*v1.Secret); ok {
		return s, nil
	}
	return o.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

const trustBundle = "ClusterTrustBundle"

func (o *Objects) listWatchBundles() cache.ListerWatcher {
	all := o.client.CertificatesV1beta1().ClusterTrustBundles()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(ctx, opts)
		},
	}, o.client)
}

// TrustBundles returns the cluster's trust bundles: from the watch, if one runs and has its first state, else from the
// API server. The result is shared: do not change it.
func (o *Objects) TrustBundles(ctx context.Context) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	if store := o.store(ctx, objectKey{kind: trustBundle}); store != nil {
		var out []*certificatesv1beta1.ClusterTrustBundle
		for _, obj := range store.List() {
			if b, ok := obj.(*certificatesv1beta1.ClusterTrustBundle); ok {
				out = append(out, b)
			}
		}
		return out, nil
	}
	list, err := o.client.CertificatesV1beta1().ClusterTrustBundles().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the API server does not have this kind (certificates.k8s.io/v1beta1): %w", err)
	}
	if err != nil {
		return nil, err
	}
	var out []*certificatesv1beta1.ClusterTrustBundle
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// cached returns the object that a watch holds, after waiting at most objectSyncWait for its first state. It returns
// nil if the object is not watched or does not exist.
func (o *Objects) cached(ctx context.Context, key objectKey) any {
	store := o.store(ctx, key)
	if store == nil {
		return nil
	}
	obj, found, err := store.GetByKey(key.namespace + "/" + key.name)
	if err != nil || !found {
		return nil
	}
	return obj
}

// store returns what a watch holds, after waiting at most objectSyncWait for its first state; nil if there is no such
// watch, or none yet.
func (o *Objects) store(ctx context.Context, key objectKey) cache.Store {
	o.mu.Lock()
	w := o.open[key]
	o.mu.Unlock()
	if w == nil {
		return nil
	}
	deadline := time.NewTimer(objectSyncWait)
	defer deadline.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()

	for !w.synced() {
		select {
		case <-ctx.Done():
			return nil
		case <-deadline.C:
			return nil
		case <-poll.C:
		}
	}
	return w.store
}
