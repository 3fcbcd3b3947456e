package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/volume"
)

func aKubelet(t *testing.T, host ...platform.Host) *Kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	volumes := volume.New(volume.Options{RootDir: t.TempDir()})
	t.Cleanup(volumes.Close)
	node := nodestatus.Options{Name: "n", MaxPods: 10}
	for _, h := range host {
		node.Host = h
	}
	k := New(Options{Node: node, API: NewAPI(kube.Offline{}), Runtime: NewRuntime(&runtime.Runtime{}),
		Volumes: NewVolumes(volumes)})
	k.ctx = ctx
	k.runtime.version.Store(&runtime.Version{Name: "containerd"})
	k.runtime.health.Store(&runtime.Health{RuntimeReady: true, NetworkReady: true})
	return k
}

// TestRouterContains: what cannot be taken in harms nothing that comes after it.
func TestRouterContains(t *testing.T) {
	k := aKubelet(t)
	take := recovering(k.ctx, "test", k.podChanged)
	take(nil)
	take(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "good", Name: "good"}})
	if k.pods.find("good") == nil {
		t.Error("the pod after one that cannot be read has no actor")
	}
	recovering(k.ctx, "test", func(pods []*v1.Pod) { k.statics.deliver(0, pods) })([]*v1.Pod{nil})
	done := make(chan struct{})
	go func() { // the locks are free again
		defer close(done)
		k.statics.set.Changed.Wake()
		k.statics.set.Plan()
		k.pods.each(func(*actor) {})
	}()
	<-done
}

// TestStamped: an API pod cannot claim to come from a file.
func TestStamped(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u",
		Annotations: map[string]string{desired.SourceAnnotation: "file", "own": "1"}}}
	got := stamped(p, time.Now())
	if desired.IsStatic(got) || got.Annotations["own"] != "1" || got.Annotations[static.SeenAnnotation] == "" ||
		!desired.IsStatic(p) {
		t.Errorf("stamped %v of %v", got.Annotations, p.Annotations)
	}
}

// TestCleanFoldersLogs: logs of unknown pods are removed, even if nothing else of the pod is on disk; other folders
// stay.
func TestCleanFoldersLogs(t *testing.T) {
	k := aKubelet(t)
	k.tools.Folders.Logs = t.TempDir()
	k.pods.knowledge.checked.Store(true)
	k.pods.actors["known"] = k.newActor("known")
	for _, dir := range []string{"ns_gone_gone", "ns_known_known", "foreign", "a_b_"} {
		if err := os.Mkdir(filepath.Join(k.tools.Folders.Logs, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	k.tools.Folders.RemoveUnknown(k.ctx, k.cleaner.foldersStay)
	left, err := os.ReadDir(k.tools.Folders.Logs)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"a_b_", "foreign", "ns_known_known"}) {
		t.Errorf("left: %v, error %v", names, err)
	}
}

// TestRestartKeepsPlaces: after a restart of the kubelet a new pod does not get the place of one that was admitted
// before, in whichever order the API delivers them and although the old one has no container at the moment.
func TestRestartKeepsPlaces(t *testing.T) {
	k := aKubelet(t, platform.Host{OS: "linux", CPUs: 1})
	k.node.Begin()
	now := metav1.Now()
	asking := func(cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(cpu)},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c",
				Resources: v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}}}
	}

	fresh, old := asking("600m"), asking("700m")
	old.Status.StartTime = &now
	ask := func(p *v1.Pod) *actor {
		a := k.newActor(p.UID)
		a.take(pod.Desired{Pod: p}, time.Now())
		a.take(pod.Checked{Runtime: &observed.Runtime{}, Began: time.Now()}, time.Now())
		a.askAdmission(k.ctx)
		return a
	}

	refused := func(a *actor) bool { return !a.state.Admitted() && !a.state.NeedsAdmission() }

	if a := ask(fresh); !a.state.NeedsAdmission() {
		t.Error("a new pod was decided about before all are known")
	}

	k.podChanged(fresh)
	k.podChanged(old)
	k.pods.knowledge.joined.Store(true)
	if a := ask(fresh); !refused(a) {
		t.Errorf("the new pod: admitted %v", a.state.Admitted())
	}
	if a := ask(old); !a.state.Admitted() {
		t.Error("the old pod was refused")
	}
}
