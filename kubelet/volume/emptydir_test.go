package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// limited is a container with a memory limit; "" is none.
func limited(memory string) v1.Container {
	if memory == "" {
		return v1.Container{}
	}
	return v1.Container{Resources: v1.ResourceRequirements{
		Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}}}
}

func TestMemorySize(t *testing.T) {
	sidecar := limited("5Mi")
	sidecar.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	pod := &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("7Mi")}}
	for _, c := range []struct {
		name       string
		spec       v1.PodSpec
		limit      string // sizeLimit
		node       string // allocatable memory
		wantInMebi int64
	}{
		{"nothing known", v1.PodSpec{Containers: []v1.Container{limited("")}}, "", "", 0},
		{"the node", v1.PodSpec{Containers: []v1.Container{limited("")}}, "", "100Mi", 100},
		{"the size limit", v1.PodSpec{Containers: []v1.Container{limited("")}}, "3Mi", "100Mi", 3},
		{"a size limit above the node", v1.PodSpec{}, "200Mi", "100Mi", 100},
		{"all containers", v1.PodSpec{Containers: []v1.Container{limited("10Mi"), limited("20Mi")}}, "", "100Mi", 30},
		{"one container without a limit", v1.PodSpec{Containers: []v1.Container{limited("10Mi"), limited("")}}, "",
			"100Mi", 100},
		{"a large init container",
			v1.PodSpec{Containers: []v1.Container{limited("10Mi")},
				InitContainers: []v1.Container{limited("40Mi"), limited("2Mi")}}, "", "100Mi", 40},
		{"an init container without a limit",
			v1.PodSpec{Containers: []v1.Container{limited("10Mi")}, InitContainers: []v1.Container{limited("")}}, "",
			"100Mi", 100},
		{"a sidecar", v1.PodSpec{Containers: []v1.Container{limited("10Mi")}, InitContainers: []v1.Container{sidecar}},
			"", "100Mi", 15},
		{"the pod as a whole", v1.PodSpec{Containers: []v1.Container{limited("")}, Resources: pod}, "", "100Mi", 7},
	} {
		var limit *resource.Quantity
		if c.limit != "" {
			limit = ptr(resource.MustParse(c.limit))
		}
		facts := Facts{}
		if c.node != "" {
			facts.Allocatable = v1.ResourceList{v1.ResourceMemory: resource.MustParse(c.node)}
		}

		if got := memorySize(&v1.Pod{Spec: c.spec}, limit, facts); got != c.wantInMebi<<20 {
			t.Errorf("%s: %d bytes, want %d Mi", c.name, got, c.wantInMebi)
		}
	}
}

func TestHugePage(t *testing.T) {
	asking := func(names ...v1.ResourceName) v1.Container {
		c := v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}
		for _, name := range names {
			c.Resources.Requests[name] = resource.MustParse("4Mi")
		}
		return c
	}

	for _, c := range []struct {
		name   string
		medium v1.StorageMedium
		spec   v1.PodSpec
		want   int64
		err    string
	}{
		{"named", "HugePages-1Gi", v1.PodSpec{}, 1 << 30, ""},
		{"not a size", "HugePages-big", v1.PodSpec{}, 0, `storage medium "HugePages-big"`},
		{"the only one", "HugePages",
			v1.PodSpec{Containers: []v1.Container{asking("hugepages-2Mi", "cpu")},
				InitContainers: []v1.Container{asking("hugepages-2Mi")}}, 2 << 20, ""},
		{"none", "HugePages", v1.PodSpec{Containers: []v1.Container{asking("memory")}}, 0, "they ask for 0"},
		{"two", "HugePages", v1.PodSpec{Containers: []v1.Container{asking("hugepages-2Mi", "hugepages-1Gi")}}, 0,
			"they ask for 2"},
	} {
		got, err := hugePage(&v1.Pod{Spec: c.spec}, c.medium)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v; want %d, %q", c.name, got, err, c.want, c.err)
		}
	}
}

// TestUnknownMedium: a medium of a newer API fails the volume, and not as a plain folder.
func TestUnknownMedium(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "Tape"}}))
	if err := m.Prepare(context.Background(), pod, Facts{}); err == nil ||
		!strings.Contains(err.Error(), `unknown storage medium "Tape"`) {
		t.Errorf("error %v", err)
	}
}

// TestReadFile: files of an emptyDir are read as far as they are in it.
func TestReadFile(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("v", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), cmVolume("cm", "none"))
	optional := true
	pod.Spec.Volumes[1].ConfigMap.Optional = &optional
	prepare(t, m, pod)
	dir, _ := m.HostPath("uid-1", "v")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "sub", "vars"), []byte("A='b'"), 0o600)); err != nil {
		t.Fatal(err)
	}

	if text, err := m.ReadFile(pod, "v", "sub/vars"); err != nil || text != "A='b'" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := m.ReadFile(pod, "v", "none"); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), dir) {
		t.Errorf("a file that is not there: %v", err)
	}
	for what, c := range map[string][2]string{"a folder": {"v", "sub"}, "outside": {"v", "../../../../x"},
		"another kind": {"cm", "x"}, "no volume": {"w", "x"}} {
		if _, err := m.ReadFile(pod, c[0], c[1]); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}

	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, maxEnvFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReadFile(pod, "v", "large"); err == nil {
		t.Error("a file of any size is read")
	}
	if os.Symlink(filepath.Join(dir, "..", "..", ".."), filepath.Join(dir, "out")) == nil {
		if _, err := m.ReadFile(pod, "v", "out/plugins"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("through a link out of the volume: %v", err)
		}
	}
}
