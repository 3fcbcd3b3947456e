package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
	"porthole.dev/porthole/kubelet/volume"
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
	a := k.newActor(types.UID(name))
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name),
		Annotations: annotations},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	now := time.Now()
	for _, f := range []pod.Fact{pod.Desired{Pod: p}, pod.Checked{Runtime: &observed.Runtime{}, Began: now},
		pod.SourcesReady{}, pod.Admitted{}} {
		a.take(f, now)
	}
	k.admission.Hold(p)

	a.reconcile = func(s *pod.State, n pod.Node, now time.Time) pod.Plan {
		if s.Pod().Annotations[poison] != "" {
			panic("cannot be worked out")
		}
		return pod.Reconcile(s, n, now)
	}
	return a
}

// newTestKubelet is a kubelet that does not run: its actors take turns when the test says so. It has a runtime, images
// and volumes unless broken, when each call of theirs panics.
func newTestKubelet(t *testing.T, api *events, broken bool) *Kubelet {
	dir, conn := t.TempDir(), runtimetest.New("i").Dial()
	o := Options{API: NewAPI(api), RootDir: dir, PodLogsDir: filepath.Join(dir, "logs"),
		Runtime: NewRuntime(runtime.New(conn, runtime.Options{PodLogsDir: filepath.Join(dir, "logs")})),
		Images:  image.New(conn, 0)}
	manager := volume.New(volume.Options{RootDir: dir})
	t.Cleanup(manager.Close)
	o.Volumes = NewVolumes(manager)
	if broken {
		o.Runtime, o.Images, o.Volumes = NewRuntime(runtime.New(nil, runtime.Options{})), nil, Volumes{}
	}

	k := New(o)
	k.runtime.version.Store(&runtime.Version{Name: "containerd"})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); k.running.Close(); k.running.Wait() })
	k.ctx = ctx
	return k
}

// unreadable is a fact that panics when it is taken.
var unreadable = (*pod.Desired)(nil)

// TestPoisonedPod: a pod over which the kubelet panics is reported and left alone for growing times; others go on, and
// it can be deleted.
func TestPoisonedPod(t *testing.T) { bubble.Test(t, testPoisonedPod) }

func testPoisonedPod(t *testing.T) {
	api := &events{}
	k := newTestKubelet(t, api, false)
	bad, good := actorOf(k, "bad", map[string]string{poison: "yes"}), actorOf(k, "good", nil)
	go good.run(k.ctx)
	good.wake.Wake()
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
	if want :=
		"bad Warning FailedSync: Error syncing pod, skipping: internal error: cannot be worked out"; !strings.Contains(
		api.all(), want) {
		t.Errorf("events %q, want %q", api.all(), want)
	}
	time.Sleep(time.Second)
	if v := good.view.Load(); v == nil || v.Pod.Status.Phase != v1.PodRunning {
		t.Errorf("the other pod does not run: %+v", v)
	}

	deleted := bad.state.Pod().DeepCopy()
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	bad.post(pod.Desired{Pod: deleted}, unreadable,
		pod.Observed{Runtime: &observed.Runtime{Sandboxes: []observed.Sandbox{{ID: "after"}}}})
	bad.turn(k.ctx) // until the fact that cannot be read
	if _, seen := bad.state.Runtime().Sandbox(); seen {
		t.Fatal("the turn went on after a panic")
	}

	bad.post(pod.Desired{Pod: deleted})
	bad.turn(k.ctx)
	bad.turn(k.ctx)
	_, seen := bad.state.Runtime().Sandbox()
	if last := bad.state.Last(); !seen || bad.panics != 0 || last == nil || last.Phase != v1.PodFailed ||
		!bad.state.Stopping() {
		t.Errorf("deleted, it does not end: seen %v, %d panics, status %+v", seen, bad.panics, last)
	}
}

// TestPanicOfATask: it is the task's failure, and the action is not in flight any more. When it is tried again, the
// table of package pod says.
func TestPanicOfATask(t *testing.T) {
	k := newTestKubelet(t, &events{}, true)
	a := actorOf(k, "p", nil)
	for _, x := range []pod.Action{{Kind: pod.PrepareVolumes, Key: pod.VolumesKey},
		{Kind: pod.StartContainer, Key: "start/c", Name: "c"},
		{Kind: pod.StopContainer, Key: "stop/x", ID: "x", Name: "c"},
		{Kind: pod.RemoveContainer, Key: "remove/x", ID: "x"}} {
		a.start(k.ctx, x)
	}
	k.running.Wait()

	for n := range 4 {
		f, ok := a.next().(pod.TaskPanicked)
		if !ok || !strings.Contains(f.Message, "internal error in "+string(f.Action.Kind)) {
			t.Fatalf("outcome %d: %#v", n, f)
		}
		a.take(f, time.Now())
	}
	if a.next() != nil || a.state.SettingUp() || a.state.VolumeFailures() != 0 {
		t.Errorf("something is still in flight: %+v", a.state)
	}
}
