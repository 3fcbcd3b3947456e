package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/sources"
)

// objects is an ObjectGetter that tests fill.
type objects struct {
	mu       sync.Mutex
	maps     map[string]*v1.ConfigMap
	secrets  map[string]*v1.Secret
	watchers map[objectRef]map[int]func()
	next     int
}

func newObjects() *objects {
	return &objects{maps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{},
		watchers: map[objectRef]map[int]func(){}}
}

func (o *objects) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cm := o.maps[name]; cm != nil {
		return cm, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (o *objects) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.secrets[name]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func (o *objects) Watch(kind, namespace, name string, changed func()) func() {
	ref := objectRef{kind, namespace, name}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next++
	id := o.next
	if o.watchers[ref] == nil {
		o.watchers[ref] = map[int]func(){}
	}
	o.watchers[ref][id] = changed
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.watchers[ref], id)
	}
}

func (o *objects) watching() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, w := range o.watchers {
		n += len(w)
	}
	return n
}

func (o *objects) setMap(name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.maps[name] = &v1.ConfigMap{Data: data}
	for _, changed := range o.watchers[objectRef{sources.ConfigMap, "ns", name}] {
		changed()
	}
}

// tokens is a TokenRequester that returns tok-1, tok-2 and so on, each valid for life.
type tokens struct {
	mu    sync.Mutex
	life  time.Duration
	asked []authv1.TokenRequestSpec
	fail  error
}

func (t *tokens) RequestToken(_ context.Context, _, _ string, r *authv1.TokenRequest) (*authv1.TokenRequest, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fail != nil {
		return nil, t.fail
	}
	t.asked = append(t.asked, r.Spec)
	out := r.DeepCopy()
	out.Status.Token = fmt.Sprintf("tok-%d", len(t.asked))
	out.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(t.life))
	return out, nil
}

func podWith(volumes ...v1.Volume) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: types.UID("uid-1"),
			Labels: map[string]string{"b": "2", "a": `x"y`}},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c"}},
			Volumes:    volumes,
		},
	}
}

func vol(name string, s v1.VolumeSource) v1.Volume { return v1.Volume{Name: name, VolumeSource: s} }

func cmVolume(name, cm string) v1.Volume {
	return vol(name,
		v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: cm}}})
}

func newTestManager(t *testing.T, o *objects) *Manager {
	t.Helper()
	m := New(Options{RootDir: tempDir(t), Objects: o})
	t.Cleanup(func() {
		uids, _ := m.OnDisk()
		for _, uid := range uids {
			if err := m.Remove(context.Background(), uid); err != nil {
				t.Errorf("cleaning up: %v", err)
			}
		}
	})
	return m
}

func prepare(t *testing.T, m *Manager, pod *v1.Pod) {
	t.Helper()
	if err := m.Prepare(context.Background(), pod, Facts{}); err != nil {
		t.Fatalf("Prepare: %v", err)
	}
}

func read(t *testing.T, m *Manager, volume, path string) string {
	t.Helper()
	dir, ok := m.HostPath("uid-1", volume)
	if !ok {
		t.Fatalf("no volume %s", volume)
	}
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return "error: " + err.Error()
	}
	return string(b)
}

// tempDir is t.TempDir without os.RemoveAll, which Wine 8 cannot carry out ("Invalid function").
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "volume-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.RemoveTree(dir); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return dir
}
