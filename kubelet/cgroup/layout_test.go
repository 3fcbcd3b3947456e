package cgroup

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPath: upstream's layout, so that either kubelet finds what the other made.
func TestPath(t *testing.T) {
	for _, c := range []struct {
		root  string
		class v1.PodQOSClass
		want  string
	}{
		{"", v1.PodQOSGuaranteed, "/kubepods/podu"},
		{"", v1.PodQOSBurstable, "/kubepods/burstable/podu"},
		{"/", v1.PodQOSBestEffort, "/kubepods/besteffort/podu"},
		{"/node1", v1.PodQOSBestEffort, "/node1/kubepods/besteffort/podu"},
		{"node1", "", "/node1/kubepods/podu"},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: v1.PodStatus{QOSClass: c.class}}
		if got := New(c.root).Path(p); got != c.want {
			t.Errorf("root %q, class %s: %s, want %s", c.root, c.class, got, c.want)
		}
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
	if err := errors.Join((None{}).Ensure(p), (None{}).RemovePod("u"), (None{}).RemoveContainer("u", "c"), (None{}).Share(nil)); err != nil {
		t.Error(err)
	}
}
