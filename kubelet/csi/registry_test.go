package csi

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"porthole.dev/porthole/internal/testkit/storagedriver"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/registration"
)

// nodeAPI is the objects of one node. Each write is counted, and the first ones conflict if that is wanted.
type nodeAPI struct {
	mu        sync.Mutex
	node      *v1.Node
	csiNode   *storagev1.CSINode
	writes    int
	conflicts int
}

var csiNodes = schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}

func (a *nodeAPI) CSINode(context.Context) (*storagev1.CSINode, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.csiNode == nil {
		return nil, apierrors.NewNotFound(csiNodes, "node")
	}
	return a.csiNode.DeepCopy(), nil
}

func (a *nodeAPI) CreateCSINode(_ context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error) {
	return a.UpdateCSINode(context.Background(), n)
}

func (a *nodeAPI) UpdateCSINode(_ context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conflicts > 0 {
		a.conflicts--
		return nil, apierrors.NewConflict(csiNodes, "node", errors.New("somebody was faster"))
	}
	a.writes++
	a.csiNode = n.DeepCopy()
	return n, nil
}

func (a *nodeAPI) GetNode(context.Context) (*v1.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node.DeepCopy(), nil
}

func (a *nodeAPI) PatchNode(_ context.Context, patch []byte) (*v1.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes++
	before, _ := json.Marshal(a.node)
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Node{})
	if err != nil {
		return nil, err
	}
	a.node = &v1.Node{}
	return a.node, json.Unmarshal(after, a.node)
}

func (a *nodeAPI) drivers() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.csiNode != nil {
		for _, d := range a.csiNode.Spec.Drivers {
			names = append(names, d.Name)
		}
	}
	return names
}

// A driver registers by its sockets, is in the CSINode with its bound and topology, comes back after a restart of
// either side without a write, and is taken out when its socket is gone.
func TestDriverRegisters(t *testing.T) {
	dir := t.TempDir()
	api := &nodeAPI{node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "u",
		Annotations: map[string]string{nodeIDAnnotation: `{"other":"id"}`}}}, conflicts: 2}
	kubelet := func() (*Registry, func()) {
		r := NewRegistry(Options{NodeName: "node", API: api})
		ctx, cancel := context.WithCancel(context.Background())
		if err := r.Announce(ctx); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			done <- registration.New(filepath.Join(dir, "reg"),
				map[string]registration.Handler{registration.CSIPlugin: r}).Run(ctx)
		}()
		return r, func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	driver, err := storagedriver.New(storagedriver.Options{Name: "d.example.com", NodeID: "id-1",
		Dir: filepath.Join(dir, "d"), MaxVolumes: 7, Topology: map[string]string{"zone": "z1"}})
	if err != nil {
		t.Fatal(err)
	}
	serve := func() func() {
		stop, err := driver.Serve(filepath.Join(dir, "csi.sock"), filepath.Join(dir, "reg", "d.example.com-reg.sock"),
			"")
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}

	r, stopKubelet := kubelet()
	if api.csiNode == nil || !strings.Contains(api.csiNode.Annotations[migratedAnnotation],
		"kubernetes.io/aws-ebs,kubernetes.io/azure-disk") ||
		len(api.csiNode.OwnerReferences) != 1 || api.csiNode.OwnerReferences[0].UID != "u" {
		t.Errorf("CSINode without drivers: %+v", api.csiNode)
	}
	stopDriver := serve()
	d, err := r.Await(context.Background(), "d.example.com", 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if can, err := d.Abilities(context.Background()); err != nil || !can.Stage || !can.Stats || !can.Expand ||
		can.MountGroup {
		t.Errorf("abilities %+v, %v", can, err)
	}
	one := api.csiNode.Spec.Drivers[0]
	if one.NodeID != "id-1" || *one.Allocatable.Count != 7 || len(one.TopologyKeys) != 1 ||
		one.TopologyKeys[0] != "zone" {
		t.Errorf("in the CSINode: %+v", one)
	}
	if api.node.Labels["zone"] != "z1" ||
		api.node.Annotations[nodeIDAnnotation] != `{"d.example.com":"id-1","other":"id"}` {
		t.Errorf("node has labels %v, annotations %v", api.node.Labels, api.node.Annotations)
	}

	before := api.writes
	stopKubelet()
	r, stopKubelet = kubelet()
	if _, err := r.Await(context.Background(), "d.example.com", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if api.writes != before {
		t.Errorf("a restart of the kubelet made %d writes", api.writes-before)
	}

	stopDriver()
	wait.True(t, 20*time.Second, "the driver is gone from the CSINode", func() bool { return len(api.drivers()) == 0 })
	if _, err := r.Driver("d.example.com"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("a driver that is gone: %v", err)
	}
	if api.node.Labels["zone"] != "z1" || api.node.Annotations[nodeIDAnnotation] != `{"other":"id"}` {
		t.Errorf("then the node has labels %v, annotations %v", api.node.Labels, api.node.Annotations)
	}
	stopDriver = serve()
	wait.True(t, 20*time.Second, "the driver is back", func() bool { return len(api.drivers()) == 1 })
	stopDriver()
	stopKubelet()
}

func TestRefused(t *testing.T) {
	r := NewRegistry(Options{NodeName: "node", API: &nodeAPI{}})
	for _, c := range []struct {
		p    registration.Plugin
		want string
	}{
		{registration.Plugin{Name: "d", Versions: []string{"0.3", "2.0.0"}}, "none of which is 1.x"},
		{registration.Plugin{Name: "d", Endpoint: "/nothing/here", Versions: []string{"1.0.0"}},
			"NodeGetInfo of CSI driver d"},
	} {
		if err := r.Register(context.Background(), c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.p, err, c.want)
		}
	}
}

func TestPlanNode(t *testing.T) {
	node := func(label string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": label}}}
	}
	e := entry{driver: "d", info: NodeInfo{NodeID: "i", Topology: map[string]string{"zone": "a"}}}
	if _, err := planNode(node("b"), e); err == nil ||
		!strings.Contains(err.Error(), `topology zone is "a", but the node's label is "b"`) {
		t.Errorf("another value of a topology label: %v", err)
	}
	got, err := planNode(node("a"), e)
	if want :=
		`{"metadata":{"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"d\":\"i\"}"},"labels":{}}}`; err != nil ||
		string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	e.gone = true
	if got, err := planNode(node("a"), e); err != nil || got != nil {
		t.Errorf("nothing to take away: %s, %v", got, err)
	}
}
