package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTree makes, resizes and removes the cgroup of a pod, each twice.
func TestTree(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	root := "/porthole-test-tree-" + strconv.Itoa(os.Getpid())
	tree := New(root)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable},
		Spec: v1.PodSpec{Containers: []v1.Container{container(list("cpu", "100m"), list("cpu", "100m", "memory", "32Mi"))}}}
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

	memory, _, _ := knobs(tree.Path(p))
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
