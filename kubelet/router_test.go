package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/volume"
)

func aKubelet(t *testing.T) *Kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	volumes := volume.New(volume.Options{RootDir: t.TempDir()})
	t.Cleanup(volumes.Close)
	k := New(Options{Node: nodestatus.Options{Name: "n"}, API: NewAPI(kube.Offline{}), Runtime: NewRuntime(&runtime.Runtime{}), Volumes: NewVolumes(volumes)})
	k.ctx = ctx
	k.version.Store(&runtime.Version{Name: "containerd"})
	return k
}

// TestRouterContains: what cannot be taken in harms nothing that comes after it.
func TestRouterContains(t *testing.T) {
	k := aKubelet(t)
	take := contained(k.ctx, "test", k.podChanged)
	take(nil)
	take(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "good", Name: "good"}})
	if k.actor("good", false) == nil {
		t.Error("the pod after one that cannot be read has no actor")
	}
	contained(k.ctx, "test", func(pods []*v1.Pod) { k.staticPods(0, pods) })([]*v1.Pod{nil})
	done := make(chan struct{})
	go func() { // the locks are free again
		defer close(done)
		k.statics.kick()
		k.statics.plan()
		k.each(func(*actor) {})
	}()
	<-done
}

// TestStamped: an API pod cannot claim to come from a file.
func TestStamped(t *testing.T) {
	k := aKubelet(t)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{static.SourceAnnotation: "file", "own": "1"}}}
	got := newActor(k, "u").stamped(p)
	if static.IsStatic(got) || got.Annotations["own"] != "1" || got.Annotations[static.SeenAnnotation] == "" || !static.IsStatic(p) {
		t.Errorf("stamped %v of %v", got.Annotations, p.Annotations)
	}
}

// TestCleanFoldersLogs: logs of pods that nobody knows go, even when nothing else of the pod is on disk; other folders stay.
func TestCleanFoldersLogs(t *testing.T) {
	k := aKubelet(t)
	k.o.PodLogsDir, k.o.Windows, k.audited = t.TempDir(), true, true
	k.actors["known"] = newActor(k, "known")
	for _, dir := range []string{"ns_gone_gone", "ns_known_known", "foreign", "a_b_"} {
		if err := os.Mkdir(filepath.Join(k.o.PodLogsDir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	k.cleanFolders(k.ctx)
	left, err := os.ReadDir(k.o.PodLogsDir)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"a_b_", "foreign", "ns_known_known"}) {
		t.Errorf("left: %v, error %v", names, err)
	}
}

// TestRestartKeepsPlaces: after a restart of the kubelet a new pod does not get the place of one that was admitted before,
// in whichever order the API delivers them and although the old one has no container at the moment.
func TestRestartKeepsPlaces(t *testing.T) {
	k := aKubelet(t)
	k.o.Node.Host.OS, k.o.Node.Host.CPUs, k.o.Node.MaxPods = "linux", 1, 10
	k.node = nodestatus.New(k.o.Node, k.nodeLinks())
	k.node.Observe(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	now := metav1.Now()
	fresh, old := asking("cpu", "600m"), asking("cpu", "700m")
	old.Status.StartTime = &now
	look := func(p *v1.Pod) *actor {
		a := newActor(k, p.UID)
		a.state.Pod, a.state.Runtime = p, &pod.Runtime{}
		k.admission(a)
		return a
	}
	if a := look(fresh); a.state.Admitted || a.state.Stop != nil {
		t.Errorf("a new pod was decided about before all are known: %+v", a.state.Stop)
	}
	k.podChanged(fresh)
	k.podChanged(old)
	k.joined.Store(true)
	if a := look(fresh); a.state.Stop == nil || a.state.Stop.Reason != "OutOfcpu" {
		t.Errorf("the new pod: admitted %v, %+v", a.state.Admitted, a.state.Stop)
	}
	if a := look(old); !a.state.Admitted {
		t.Errorf("the old pod: %+v", a.state.Stop)
	}
}
