package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func byFiles(t *testing.T, tree Tree) Tree {
	t.Helper()
	if err := tree.Use(Cgroupfs); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestTree makes, resizes and removes the cgroup of a pod, each twice.
func TestTree(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	root := "/porthole-test-tree-" + strconv.Itoa(os.Getpid())
	tree := byFiles(t, New(root))
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable},
		Spec: v1.PodSpec{Containers: []v1.Container{container(list("cpu", "100m"),
			list("cpu", "100m", "memory", "32Mi"))}}}
	if err := tree.Ensure(p); err != nil {
		t.Skip("no cgroups can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := Remove(root); err != nil {
			t.Error(err)
		}
	})
	if err := tree.Ensure(p); err != nil {
		t.Errorf("a second time: %v", err)
	}

	memory, _, _ := knobs(tree.Path(p), defaultPeriod)
	limit := func() string {
		text, err := os.ReadFile(memory.file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := limit(); got != "33554432\n" {
		t.Errorf("memory limit %q", got)
	}

	p.Spec.Containers[0] = container(list("cpu", "100m"), list("cpu", "100m", "memory", "64Mi"))
	for range 2 {
		if err := tree.Resize(p, func() error { return nil }); err != nil || limit() != "67108864\n" {
			t.Errorf("resized: %q, %v", limit(), err)
		}
	}

	for range 2 { // by the UID alone, and when it is gone
		if err := tree.RemovePod("u"); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Dir(memory.file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the cgroup is still there: %v", err)
		}
	}
}

// TestShare: the cgroups of all pods and of their classes are there before the first pod, with limits and shares; the
// share of a class changes when pods come and go, and does not change while the kubelet does not know its pods yet.
func TestShare(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	root := "/porthole-test-share-" + strconv.Itoa(os.Getpid())
	tree := byFiles(t, New(root).Most(list("cpu", "1500m", "memory", "64Mi", "pid", "500")))
	if err := tree.Share(nil); err != nil {
		t.Skip("no cgroups can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := Remove(root); err != nil {
			t.Error(err)
		}
	})

	shares := func(class string) int64 {
		_, _, k := knobs(root+"/kubepods"+class, defaultPeriod)
		return valueOf(t, k)
	}
	memory, _, _ := knobs(root+"/kubepods", defaultPeriod)
	if text, err := os.ReadFile(memory.file); string(text) != "67108864\n" {
		t.Errorf("memory of all pods: %q, %v", text, err)
	}
	if unified() {
		return // weights are not shares
	}
	if got := []int64{shares(""), shares("/besteffort")}; got[0] != 1536 || got[1] != 2 {
		t.Errorf("shares of all and of BestEffort pods: %v", got)
	}

	p := &v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable},
		Spec: v1.PodSpec{Containers: []v1.Container{container(list("cpu", "500m"), nil)}}}
	for _, c := range []struct {
		pods []*v1.Pod
		want int64
	}{{[]*v1.Pod{p, p}, 1024}, {nil, 1024}, {[]*v1.Pod{}, 2}} {
		if err := tree.Share(c.pods); err != nil || shares("/burstable") != c.want {
			t.Errorf("%d pods: shares %d, want %d: %v", len(c.pods), shares("/burstable"), c.want, err)
		}
	}
}

// TestReserved: cgroups that others made are limited to what the configuration reserves for them, and one that is not
// there is named. Processors alone are limited where the rest is not to be.
func TestReserved(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	root := "/porthole-test-reserved-" + strconv.Itoa(os.Getpid())
	system, kube := root+"/system", root+"/kube"
	if err := errors.Join(ensure(system, limits{}), ensure(kube, limits{shares: 2})); err != nil {
		t.Skip("no cgroups can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := Remove(root); err != nil {
			t.Error(err)
		}
	})

	most := list("cpu", "500m", "memory", "64Mi", "pid", "100")
	tree := byFiles(t, New(root).
		Reserve(Reserved{Name: system, Most: most}, Reserved{Name: kube, Most: most, Compressible: true}))
	if err := tree.Share(nil); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]int64{system: 64 << 20, kube: none} {
		memory, _, shares := knobs(group, defaultPeriod)
		if valueOf(t, memory) != want || valueOf(t, shares) < 480 {
			t.Errorf("%s has %d bytes and %d shares", group, valueOf(t, memory), valueOf(t, shares))
		}
	}

	missing := byFiles(t, New(root).Reserve(Reserved{Name: root + "/nowhere", Most: most}))
	if err := missing.Share(nil); err == nil || !strings.Contains(err.Error(), root+"/nowhere) does not exist") {
		t.Errorf("a cgroup that is not there: %v", err)
	}
}
