package kubelet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
)

// events is an API that only takes events.
type events struct {
	kube.Offline
	mu   sync.Mutex
	list []string
}

func (e *events) PodEvent(p *v1.Pod, _, kind, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf("%s %s %s: %s", p.Name, kind, reason, message))
}

func (e *events) all() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.list, "\n")
}

// poison is an annotation of pods over which this test's reconcile panics.
const poison = "poison"

func actorOf(k *Kubelet, name string, annotations map[string]string) *actor {
	a := newActor(k, types.UID(name))
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Annotations: annotations},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	a.state.Pod, a.state.Runtime, a.state.Admitted = p, &pod.Runtime{}, true
	k.admit.held[a.uid] = claimOf(p)
	a.reconcile = func(s *pod.State, f pod.Facts, now time.Time) pod.Plan {
		if s.Pod.Annotations[poison] != "" {
			panic("cannot be worked out")
		}
		plan := pod.Reconcile(s, f, now)
		plan.Actions = nil // there is no runtime
		return plan
	}
	return a
}

func newTestKubelet(t *testing.T, api *events) *Kubelet {
	k := New(Options{API: NewAPI(api), Runtime: NewRuntime(runtime.New(nil, runtime.Options{})), Images: image.New(nil, 0)})
	k.version.Store(&runtime.Version{Name: "containerd"})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); k.running.Wait() })
	k.ctx = ctx
	return k
}

// TestPoisonedPod: a pod over which the kubelet panics is told about and left alone for growing times; others go on, and it
// can be deleted.
func TestPoisonedPod(t *testing.T) {
	api := &events{}
	k := newTestKubelet(t, api)
	bad, good := actorOf(k, "bad", map[string]string{poison: "yes"}), actorOf(k, "good", nil)
	rests := []time.Duration{}
	for range 3 {
		rest, done := bad.turn(k.ctx)
		if done {
			t.Fatal("its actor ended")
		}
		rests = append(rests, rest)
	}
	if rests[0] != time.Second || rests[1] != 2*time.Second || rests[2] != 4*time.Second {
		t.Errorf("it rests %v", rests)
	}
	if want := "bad Warning FailedSync: Error syncing pod, skipping: internal error: cannot be worked out"; !strings.HasPrefix(api.all(), want) {
		t.Errorf("events %q, want %q", api.all(), want)
	}
	if _, done := good.turn(k.ctx); done || good.state.Last == nil || good.panics != 0 {
		t.Error("the other pod was not looked at")
	}
	deleted := bad.state.Pod.DeepCopy()
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	bad.post(func(s *pod.State) { s.Pod = deleted })
	bad.post(func(*pod.State) { panic("a fact") })
	seen := false
	bad.post(func(*pod.State) { seen = true })
	bad.turn(k.ctx) // the fact
	if seen {
		t.Fatal("the turn went on after a panic")
	}
	bad.turn(k.ctx)
	if !seen || bad.panics != 0 || bad.state.Last == nil || bad.state.Last.Phase != v1.PodFailed || bad.state.StopSince.IsZero() {
		t.Errorf("deleted, it does not end: seen %v, %d panics, status %+v", seen, bad.panics, bad.state.Last)
	}
}

// TestPanicOfATask: it is the task's failure, and is tried again later.
func TestPanicOfATask(t *testing.T) {
	k := newTestKubelet(t, &events{})
	a := actorOf(k, "p", nil)
	for _, x := range []pod.Action{{Kind: pod.PrepareVolumes, Key: pod.VolumesKey}, {Kind: pod.StartContainer, Key: "start/c", Name: "c"},
		{Kind: pod.StopContainer, Key: "stop/x", ID: "x", Name: "c"}, {Kind: pod.RemoveContainer, Key: "remove/x", ID: "x"}} {
		a.start(k.ctx, x)
	}
	k.running.Wait()
	for f := a.take(); f != nil; f = a.take() {
		f(&a.state)
	}
	if len(a.state.InFlight) != 0 {
		t.Errorf("still in flight: %v", a.state.InFlight)
	}
	if f := a.state.VolumeFailure; f == nil || !strings.Contains(f.Message, "internal error in prepare-volumes") {
		t.Errorf("volumes: %+v", f)
	}
	for _, key := range []string{"c", "stop/x", pod.RemoveKey} {
		if f := a.state.Failures[key]; f == nil || !strings.Contains(f.Message, "internal error") || time.Until(f.RetryAt) < 5*time.Second {
			t.Errorf("%s: %+v", key, f)
		}
	}
}

// TestNewPodTriesAgain: what failed for the pod as it was is tried at once when it changes, and a new image is asked for.
func TestNewPodTriesAgain(t *testing.T) {
	k := newTestKubelet(t, &events{})
	a := actorOf(k, "p", nil)
	a.podIsNew()
	a.state.Images["c"] = pod.Image{Ref: "old"}
	a.state.Failures["c"] = &pod.Failure{Reason: "CreateContainerConfigError", RetryAt: time.Now().Add(time.Hour)}
	a.state.Failures[pod.SandboxKey] = &pod.Failure{RetryAt: time.Now().Add(time.Hour)}
	changed := a.state.Pod.DeepCopy()
	changed.Annotations = map[string]string{"a": "b"}
	a.state.Pod = changed
	a.podIsNew()
	if !a.state.Failures["c"].RetryAt.IsZero() || a.state.Failures[pod.SandboxKey].RetryAt.IsZero() || a.state.Images["c"].Ref != "old" {
		t.Errorf("after a new annotation: %+v, %+v", a.state.Failures["c"], a.state.Images)
	}
	changed = changed.DeepCopy()
	changed.Generation, changed.Spec.Containers[0].Image = 2, "new"
	a.state.Pod = changed
	a.podIsNew()
	if _, ok := a.state.Images["c"]; ok {
		t.Error("the reference of the old image is kept")
	}
}
