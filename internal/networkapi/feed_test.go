package networkapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// recorded is a sink that remembers the names, and the zone of the node.
type recorded struct {
	mu   sync.Mutex
	have map[string]bool
	zone string
}

func (r *recorded) note(name string, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if there {
		r.have[name] = true
	} else {
		delete(r.have, name)
	}
}

func (r *recorded) SetService(s *corev1.Service) { r.note("service "+s.Namespace+"/"+s.Name, true) }
func (r *recorded) RemoveService(namespace, name string) {
	r.note("service "+namespace+"/"+name, false)
}
func (r *recorded) SetSlice(s *discoveryv1.EndpointSlice) {
	r.note("slice "+s.Namespace+"/"+s.Name, true)
}
func (r *recorded) RemoveSlice(namespace, name string) { r.note("slice "+namespace+"/"+name, false) }
func (r *recorded) ServiceNames() []string             { return r.names("service ") }
func (r *recorded) SliceNames() []string               { return r.names("slice ") }
func (r *recorded) names(kind string) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.have {
		if name, ok := strings.CutPrefix(n, kind); ok {
			names = append(names, name)
		}
	}
	return names
}
func (r *recorded) node(n *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.zone = n.Labels[corev1.LabelTopologyZone]
}

func (r *recorded) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(r.have)), ", ") + "; zone " + r.zone
}

// waitFor waits for changes from the feed until the sink has what is wanted.
func waitFor(t *testing.T, f *ServiceFeed, r *recorded, want string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for r.String() != want || !f.Synced() {
		select {
		case <-f.Changed():
		case <-deadline:
			t.Fatalf("the sink has %q, want %q (synced %t)", r, want, f.Synced())
		}
	}
}

// watching returns a channel that is closed once a resource is watched.
func watching(client *fake.Clientset, resource string) <-chan struct{} {
	begun := make(chan struct{})
	var once sync.Once
	client.PrependWatchReactor(resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		once.Do(func() { close(begun) })
		return true, w, err
	})
	return begun
}

func named(namespace, name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		m.Labels[key] = value
	}
	return m
}

// TestFeedServices: objects are created, changed and deleted; deletions while the watch was interrupted are found.
func TestFeedServices(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Service{ObjectMeta: named("a", "web")},
		&corev1.Service{ObjectMeta: named("a", "old")},
		&corev1.Service{ObjectMeta: named("a", "mesh", "service.kubernetes.io/service-proxy-name=other")},
		&discoveryv1.EndpointSlice{ObjectMeta: named("a", "web-1", discoveryv1.LabelServiceName+"=web")},
		&discoveryv1.EndpointSlice{ObjectMeta: named("a", "none-1", "service.kubernetes.io/headless=")},
		&corev1.Node{ObjectMeta: named("", "n1", corev1.LabelTopologyZone+"=z1")})
	broken := watch.NewFake()
	first := true
	client.PrependWatchReactor("services", func(clienttesting.Action) (bool, watch.Interface, error) {
		if first {
			first = false
			return true, broken, nil
		}
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sliceWatch, nodeWatch := watching(client, "endpointslices"), watching(client, "nodes")
	sink := &recorded{have: map[string]bool{}}
	f := FeedServices(ctx, api(client), "n1", sink, sink.node)
	waitFor(t, f, sink, "service a/old, service a/web, slice a/web-1; zone z1")
	<-sliceWatch // the fake loses what happens between a list and the watch after it
	<-nodeWatch

	if _, err := client.DiscoveryV1().EndpointSlices("a").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: named("a", "web-2", discoveryv1.LabelServiceName+"=web")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.DiscoveryV1().EndpointSlices("a").Delete(ctx, "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Update(ctx, &corev1.Node{
		ObjectMeta: named("", "n1", corev1.LabelTopologyZone+"=z2")}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, f, sink, "service a/old, service a/web, slice a/web-2; zone z2")

	// The watch of services misses a deletion and a creation, then ends because its version is too old.
	if err := client.CoreV1().Services("a").Delete(ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services("a").
		Create(ctx, &corev1.Service{ObjectMeta: named("a", "new")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	broken.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone,
		Reason: metav1.StatusReasonExpired})
	waitFor(t, f, sink, "service a/new, service a/web, slice a/web-2; zone z2")
}

// TestFeedIncomplete: the feed is not synced while one kind cannot be read.
func TestFeedIncomplete(t *testing.T) {
	client := fake.NewClientset(&corev1.Service{ObjectMeta: named("a", "web")})
	asked := make(chan struct{}, 100)
	client.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		return true, nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", nil)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := &recorded{have: map[string]bool{}}
	f := FeedServices(ctx, api(client), "n1", sink, sink.node)
	deadline := time.After(30 * time.Second)

	for i := 0; i < 2; { // the second question follows a refused first one
		select {
		case <-asked:
			i++
		case <-deadline:
			t.Fatal("endpoint slices were not listed twice")
		}
	}
	if f.Synced() {
		t.Error("synced without endpoint slices")
	}
}

// TestReflectedTombstone: a deletion without the object is taken in.
func TestReflectedTombstone(t *testing.T) {
	sink := &recorded{have: map[string]bool{}}
	r := &reflected[*corev1.Service]{set: sink.SetService, remove: sink.RemoveService, wake: func() {}}
	for _, name := range []string{"x", "y"} {
		if err := r.Add(&corev1.Service{ObjectMeta: named("a", name)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Delete(cache.DeletedFinalStateUnknown{Key: "a/x"}); err != nil {
		t.Fatal(err)
	}
	if got := sink.String(); got != "service a/y; zone " {
		t.Errorf("the sink has %q", got)
	}
	if err := r.Delete(42); err == nil {
		t.Error("a deletion of nothing known is no error")
	}
}

// TestTransformer: unused fields are dropped, the others are kept.
func TestTransformer(t *testing.T) {
	yes := true
	slice := &discoveryv1.EndpointSlice{ObjectMeta: named("a", "s", discoveryv1.LabelServiceName+"=web"),
		AddressType: discoveryv1.AddressTypeIPv4}
	slice.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: "x"}

	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		node := "n1"
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes}, TargetRef: &corev1.ObjectReference{Name: "pod"}})
	}

	r := &reflected[*discoveryv1.EndpointSlice]{trim: newSliceTrimmer()}
	got, err := r.Transformer()(slice)
	if err != nil || got != any(slice) {
		t.Fatalf("transformed to %v, %v", got, err)
	}

	a, b := slice.Endpoints[0], slice.Endpoints[1]
	switch {
	case slice.ManagedFields != nil, a.TargetRef != nil:
		t.Error("kept what nobody reads")
	case a.NodeName != b.NodeName, a.Conditions.Ready != b.Conditions.Ready:
		t.Error("texts and conditions are not shared")
	case *a.NodeName != "n1" || !*a.Conditions.Ready || a.Conditions.Serving != nil ||
		slice.Annotations[corev1.EndpointsLastChangeTriggerTime] != "x":
		t.Error("changed what is read")
	}
}
