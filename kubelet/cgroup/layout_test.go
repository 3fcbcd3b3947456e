package cgroup

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPath: upstream's layout, so that either kubelet finds what the other made.
func TestPath(t *testing.T) {
	for _, c := range []struct {
		root         string
		class        v1.PodQOSClass
		files, slice string
	}{
		{"", v1.PodQOSGuaranteed, "/kubepods/podu-1", "/kubepods.slice/kubepods-podu_1.slice"},
		{"", v1.PodQOSBurstable, "/kubepods/burstable/podu-1",
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice"},
		{"/", v1.PodQOSBestEffort, "/kubepods/besteffort/podu-1",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu_1.slice"},
		{"/node-1", v1.PodQOSBestEffort, "/node-1/kubepods/besteffort/podu-1",
			"/node_1.slice/node_1-kubepods.slice/node_1-kubepods-besteffort.slice/node_1-kubepods-besteffort-podu_1.slice"},
		{"a/b", "", "/a/b/kubepods/podu-1", "/a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-podu_1.slice"},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1"}, Status: v1.PodStatus{QOSClass: c.class}}

		tree := New(c.root)
		if got := tree.Path(p); got != "" || tree.Ensure(p) == nil || tree.RemovePod("u") == nil ||
			tree.Share(nil) == nil {
			t.Errorf("before there is a driver, the path is %s", got)
		}
		if err := tree.Use(Cgroupfs); err != nil || tree.Path(p) != c.files {
			t.Errorf("root %q, class %s: %s, want %s: %v", c.root, c.class, tree.Path(p), c.files, err)
		}
		if got := slicePath(append(tree.root,
			strings.FieldsFunc(strings.TrimPrefix(c.files, "/"+strings.Join(tree.root, "/")),
				func(r rune) bool { return r == '/' })...)); got != c.slice {
			t.Errorf("root %q, class %s: %s, want %s", c.root, c.class, got, c.slice)
		}
	}
}

// TestNameIn: what a cgroup is called among its siblings, with either driver.
func TestNameIn(t *testing.T) {
	for group, want := range map[string]string{
		"/kubepods": "kubepods", "/kubepods/burstable": "burstable", "/kubepods/podu-1": "podu-1",
		"/kubepods/podu-1/abc": "abc",
		"/kubepods.slice":      "kubepods", "/kubepods.slice/kubepods-burstable.slice": "burstable",
		"/n_1.slice/n_1-kubepods.slice/n_1-kubepods-podu_1.slice":        "podu-1",
		"/kubepods.slice/kubepods-podu_1.slice/cri-containerd-abc.scope": "abc",
		"/kubepods.slice/kubepods-podu_1.slice/crio-abc.scope":           "abc",
		"/kubepods.slice/kubepods-podu_1.slice/other.scope":              "other.scope", "/": "/"} {
		if got := NameIn(group); got != want {
			t.Errorf("%s is %s, want %s", group, got, want)
		}
	}
}

func TestUnknownDriver(t *testing.T) {
	if err := New("").Use("docker"); err == nil || !strings.Contains(err.Error(), `"docker" is not known`) {
		t.Error(err)
	}
}

func TestNone(t *testing.T) {
	p, failed := &v1.Pod{}, errors.New("no")
	if at := (None{}).Path(p); at != "" {
		t.Errorf("path %q", at)
	}
	if err := (None{}).Resize(p, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error of change is lost: %v", err)
	}
	if err := errors.Join((None{}).Ensure(p), (None{}).RemovePod("u"), (None{}).RemoveContainer("u", "c"),
		(None{}).Share(nil)); err != nil {
		t.Error(err)
	}
}
