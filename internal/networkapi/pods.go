package networkapi

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// ErrPodsUnknown is why Pods.List has no pods before the first answer of the API server.
var ErrPodsUnknown = errors.New("the pods of this node are not known yet")

// Pods follows the pods of one node. It keeps of them what says whether a drain would evict them and whether they need
// a network: names, owners, the annotation of static pods, whether they use the host's network, and their phase.
type Pods struct {
	client  *Client
	node    string
	changed func()

	mu   sync.Mutex
	pods map[string]*corev1.Pod // by namespace/name
	err  error                  // why pods are not known; nil: they are
}

// NewPods returns Pods that do nothing before Run. changed is called from one goroutine after each change of List. It
// must not block.
func NewPods(client *Client, node string, changed func()) *Pods {
	return &Pods{client: client, node: node, changed: changed, err: ErrPodsUnknown}
}

// listsFirst is a client whose watches do not begin with the list: the error of a list says why pods are not known.
type listsFirst struct{}

// IsWatchListSemanticsUnSupported is what client-go's reflectors call.
func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

// Run watches until ctx ends.
func (p *Pods) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	lw := listWatch(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", p.node).String()
	}, p.client.Pods)
	list := lw.ListWithContextFunc
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		pods, err := list(ctx, o)
		if err != nil {
			p.failed(err)
		}
		return pods, err
	}
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, listsFirst{}), &corev1.Pod{},
		podStore{p},
		cache.ReflectorOptions{Logger: &logger}).RunWithContext(ctx)
}

// failed keeps why the pods cannot be listed. Those that were known stay.
func (p *Pods) failed(err error) {
	p.mu.Lock()
	unknown := p.err != nil
	if unknown {
		p.err = err
	}
	p.mu.Unlock()
	if unknown {
		p.changed()
	}
}

// List returns the pods as last seen, in no order, which must not be changed. It returns an error until the first list
// is complete: ErrPodsUnknown, or why the API server does not answer.
func (p *Pods) List() ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	pods := make([]*corev1.Pod, 0, len(p.pods))
	for _, pod := range p.pods {
		pods = append(pods, pod)
	}
	return pods, nil
}

func trimPod(pod *corev1.Pod) *corev1.Pod {
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, OwnerReferences: pod.OwnerReferences},
		Spec:       corev1.PodSpec{HostNetwork: pod.Spec.HostNetwork},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if mirror, is := pod.Annotations[corev1.MirrorPodAnnotationKey]; is {
		trimmed.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirror}
	}
	return trimmed
}

// podStore is what the reflector writes to. It has one goroutine.
type podStore struct{ p *Pods }

// change changes what is kept. If do returns true, it calls changed.
func (s podStore) change(do func() (different bool)) {
	s.p.mu.Lock()
	different := do()
	s.p.mu.Unlock()
	if different {
		s.p.changed()
	}
}

// Add takes in a new pod.
func (s podStore) Add(obj any) error { return s.Update(obj) }

// Update takes in a changed pod. Kubelets write the status of pods that end several times; most of that is not kept.
func (s podStore) Update(obj any) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("%T is no pod", obj)
	}
	name := pod.Namespace + "/" + pod.Name
	kept := trimPod(pod)
	s.change(func() bool {
		before := s.p.pods[name]
		s.p.pods[name] = kept
		return !reflect.DeepEqual(before, kept)
	})
	return nil
}

// Delete removes a pod.
func (s podStore) Delete(obj any) error {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err == nil {
		s.change(func() bool { delete(s.p.pods, name.Namespace+"/"+name.Name); return true })
	}
	return err
}

// Replace takes in all pods.
func (s podStore) Replace(list []any, _ string) error {
	all := map[string]*corev1.Pod{}
	for _, obj := range list {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("%T is no pod", obj)
		}
		all[pod.Namespace+"/"+pod.Name] = trimPod(pod)
	}
	s.change(func() bool { s.p.pods, s.p.err = all, nil; return true })
	return nil
}

// Resync does nothing: nothing is kept that could differ from itself.
func (s podStore) Resync() error { return nil }
