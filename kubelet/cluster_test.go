package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/wakeup"
)

// cluster is an API server in memory. It keeps what the kubelet relies on: a deletion with a grace period only marks a
// pod, one without removes it at once, a patch hits only the pod with its UID, and each change has a new resource
// version and is delivered to watchers in order.
type cluster struct {
	mu       sync.Mutex
	version  int
	pods     map[string]*v1.Pod // by namespace/name
	node     *v1.Node
	watchers []*watcher
	events   []string
	// fault, if set, answers a call with an error.
	fault func(verb string) error
	// slow is how long the first delivery of pods takes.
	slow time.Duration
}

func newCluster() *cluster { return &cluster{pods: map[string]*v1.Pod{}} }

// watcher delivers the changes of pods to one kubelet.
type watcher struct {
	queue []change // guarded by cluster.mu
	more  wakeup.Signal
}

type change struct {
	pod  *v1.Pod
	gone bool
}

func notFoundPod(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

// store keeps a new version of a pod and tells the watchers; the caller holds the lock.
func (c *cluster) store(p *v1.Pod, gone bool) {
	c.version++
	p.ResourceVersion = strconv.Itoa(c.version)
	key := p.Namespace + "/" + p.Name
	if c.pods[key] = p; gone {
		delete(c.pods, key)
	}
	for _, w := range c.watchers {
		w.queue = append(w.queue, change{p, gone})
		w.more.Wake()
	}
}

// create adds a pod to the node, as a client and the scheduler together do.
func (c *cluster) create(p *v1.Pod) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	p = p.DeepCopy()
	if p.Namespace == "" {
		p.Namespace = "ns"
	}
	if old := c.pods[p.Namespace+"/"+p.Name]; old != nil {
		panic("pod " + p.Name + " exists")
	}
	p.UID = types.UID(fmt.Sprintf("%s-%d", p.Name, c.version))
	p.Generation, p.CreationTimestamp = 1, metav1.Now()
	p.Status.Phase = v1.PodPending
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = v1.PodQOSBestEffort
	}
	c.store(p, false)
	return p
}

// get returns a pod, or nil.
func (c *cluster) get(name string) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods["ns/"+name]
}

// list returns the pods in the order of their names.
func (c *cluster) list() []*v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*v1.Pod
	for _, p := range c.pods {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// update changes the spec of a pod.
func (c *cluster) update(name string, edit func(*v1.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods["ns/"+name].DeepCopy()
	edit(p)
	p.Generation++
	c.store(p, false)
}

// remove deletes a pod with a grace period in seconds, or as its spec says if that is negative. It does nothing for
// one that is gone.
func (c *cluster) remove(name string, grace int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.pods["ns/"+name]
	if old == nil {
		return
	}
	p := old.DeepCopy()
	if grace < 0 {
		grace = 30
		if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
			grace = *s
		}
	}
	if old.DeletionGracePeriodSeconds != nil && *old.DeletionGracePeriodSeconds <= grace && grace > 0 {
		return
	}
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	p.Generation++
	c.store(p, grace == 0)
}

// said returns the events about a pod, as "reason: message" lines.
func (c *cluster) said(pod string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, e := range c.events {
		if text, ok := strings.CutPrefix(e, pod+" "); ok {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}

// setFault replaces the fault.
func (c *cluster) setFault(fault func(verb string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// client is the API for one kubelet. Its end is that of the kubelet's process: no call gets through any more.
type client struct {
	kube.Offline
	c    *cluster
	dead chan struct{}
}

func (c *cluster) client() *client { return &client{c: c, dead: make(chan struct{})} }

var errAway = errors.New("connection refused")

// enter begins a call; on success the caller holds the lock.
func (a *client) enter(verb string) error {
	select {
	case <-a.dead:
		return errAway
	default:
	}
	a.c.mu.Lock()
	if a.c.fault != nil {
		if err := a.c.fault(verb); err != nil {
			a.c.mu.Unlock()
			return err
		}
	}
	return nil
}

// Pods watches the pods, beginning with those that exist.
func (a *client) Pods(ctx context.Context, changed, gone func(*v1.Pod)) (synced func() bool) {
	w := &watcher{more: wakeup.New()}
	a.c.mu.Lock()
	for _, p := range a.c.pods {
		w.queue = append(w.queue, change{p, false})
	}
	first := len(w.queue)
	a.c.watchers = append(a.c.watchers, w)
	a.c.mu.Unlock()

	done := make(chan struct{})
	go func() {
		defer a.c.forget(w)
		timer := time.NewTimer(a.c.slow)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for n := 0; ; n++ {
			if n == first {
				close(done)
			}
			x, ok := a.c.next(ctx, w)
			if !ok {
				return
			}
			if x.gone {
				gone(x.pod)
			} else {
				changed(x.pod)
			}
		}
	}()
	return func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// next waits for the oldest change that a watcher has not seen.
func (c *cluster) next(ctx context.Context, w *watcher) (change, bool) {
	for {
		if ctx.Err() != nil {
			return change{}, false
		}
		c.mu.Lock()
		if len(w.queue) > 0 {
			x := w.queue[0]
			w.queue = w.queue[1:]
			c.mu.Unlock()
			return x, true
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-w.more:
		}
	}
}

func (c *cluster) forget(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers = slices.DeleteFunc(c.watchers, func(other *watcher) bool { return other == w })
}

// PatchPodStatus applies a strategic merge patch to the status of a pod.
func (a *client) PatchPodStatus(_ context.Context, namespace, name string, patch []byte) (*v1.Pod, error) {
	if err := a.enter("patch pod"); err != nil {
		return &v1.Pod{}, err // as client-go does
	}
	defer a.c.mu.Unlock()
	old := a.c.pods[namespace+"/"+name]
	if old == nil {
		return nil, notFoundPod(name)
	}

	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Pod{})
	if err != nil {
		return nil, err
	}
	var p v1.Pod
	if err := json.Unmarshal(after, &p); err != nil {
		return nil, err
	}

	if p.UID != old.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New("UID differs"))
	}
	kept := old.DeepCopy()
	kept.Status = p.Status
	a.c.store(kept, false)
	return kept, nil
}

// CreatePod creates the mirror of a static pod.
func (a *client) CreatePod(_ context.Context, p *v1.Pod) (*v1.Pod, error) {
	if err := a.enter("create pod"); err != nil {
		return nil, err
	}
	exists := a.c.pods[p.Namespace+"/"+p.Name] != nil
	a.c.mu.Unlock()
	if exists {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, p.Name)
	}
	return a.c.create(p), nil
}

// DeletePod removes a pod at once.
func (a *client) DeletePod(_ context.Context, namespace, name string, uid types.UID) error {
	if err := a.enter("delete pod"); err != nil {
		return err
	}
	defer a.c.mu.Unlock()
	p := a.c.pods[namespace+"/"+name]
	switch {
	case p == nil:
		return notFoundPod(name)
	case p.UID != uid:
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New("UID differs"))
	}
	a.c.store(p.DeepCopy(), true)
	return nil
}

// CreateNode registers the node, once.
func (a *client) CreateNode(_ context.Context, n *v1.Node) (*v1.Node, error) {
	if err := a.enter("create node"); err != nil {
		return nil, err
	}
	defer a.c.mu.Unlock()
	if a.c.node != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "nodes"}, n.Name)
	}
	a.c.node = n.DeepCopy()
	a.c.node.UID = "node-uid"
	return a.c.node, nil
}

// GetNode reads the node.
func (a *client) GetNode(context.Context) (*v1.Node, error) {
	if err := a.enter("get node"); err != nil {
		return nil, err
	}
	defer a.c.mu.Unlock()
	return a.c.node, nil
}

// PatchNode applies a strategic merge patch to the node.
func (a *client) PatchNode(_ context.Context, patch []byte) (*v1.Node, error) {
	if err := a.enter("patch node"); err != nil {
		return nil, err
	}
	defer a.c.mu.Unlock()
	before, err := json.Marshal(a.c.node)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Node{})
	if err != nil {
		return nil, err
	}
	var n v1.Node
	if err := json.Unmarshal(after, &n); err != nil {
		return nil, err
	}
	a.c.node = &n
	return &n, nil
}

// PatchNodeStatus does the same as PatchNode.
func (a *client) PatchNodeStatus(ctx context.Context, patch []byte) (*v1.Node, error) {
	return a.PatchNode(ctx, patch)
}

// PodEvent keeps an event.
func (a *client) PodEvent(p *v1.Pod, _, _, reason, message string) {
	if a.enter("event") == nil {
		a.c.events = append(a.c.events, fmt.Sprintf("%s %s: %s", p.Name, reason, message))
		a.c.mu.Unlock()
	}
}

// AnnotatedPodEvent keeps an event with its annotations.
func (a *client) AnnotatedPodEvent(p *v1.Pod, annotations map[string]string, kind, reason, message string) {
	a.PodEvent(p, "", kind, reason, message+fmt.Sprint(annotations))
}

// NodeEvent drops an event.
func (a *client) NodeEvent(string, string, string) {}
