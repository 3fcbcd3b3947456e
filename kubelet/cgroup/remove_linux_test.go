package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRemoveContainer ends what is in one container's cgroup, and leaves the pod's other containers alone.
func TestRemoveContainer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	root := "/porthole-test-remove-" + strconv.Itoa(os.Getpid())
	tree := byFiles(t, New(root))
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}}
	t.Cleanup(func() {
		if err := Remove(root); err != nil {
			t.Error(err)
		}
	})

	start := func(id string) (pid int, ended chan struct{}) {
		path := filepath.Join(tree.Path(p), id)
		if err := ensure(path, limits{memory: 32 << 20}); err != nil {
			t.Skip("no cgroups can be made here: ", err)
		}

		c := exec.Command("sleep", "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended = make(chan struct{})
		go func() { _ = c.Wait(); close(ended) }()
		t.Cleanup(func() { _ = c.Process.Kill(); <-ended }) // an error says that it has ended
		memory, _, _ := knobs(path, defaultPeriod)
		if err := write(filepath.Join(filepath.Dir(memory.file), "cgroup.procs"),
			strconv.Itoa(c.Process.Pid)); err != nil {
			t.Fatal(err)
		}
		return c.Process.Pid, ended
	}

	_, cut := start("cut")
	other, _ := start("other")
	if err := tree.RemoveContainer("u1", "cut"); err != nil {
		t.Fatal(err)
	}
	<-cut // the test's own limit bounds it
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(other), "fd", "0")); err != nil {
		t.Errorf("the other container's process has ended: %v", err)
	}
}
