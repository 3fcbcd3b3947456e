package kubelet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// testWhole: a pod with resources as a whole: a container without limits has the pod's in its own cgroup, also after
// the pod was resized, and its processes have the score for the kernel's killer that goes with it. One whose policy
// says so is restarted for it. Our kubelet does all of it as upstream's does.
func testWhole(t *testing.T, w *world) {
	defer func() {
		w.kubelet.Stop()
		w.startKubelet()
	}()
	saw := sameOnBoth(t, w, func(upstream bool) string { return wholePod(t, w, fmt.Sprintf("whole-%v", upstream)) })
	if strings.Count(saw, "\n") != 8 {
		t.Errorf("seen were\n%s", saw)
	}
}

func wholeResources(cpu, memory string) *v1.ResourceRequirements {
	l := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	return &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("60m"),
		v1.ResourceMemory: resource.MustParse("32Mi")}, Limits: l}
}

// wholePod makes a pod with resources as a whole, resizes it, and returns what its containers had before and after.
func wholePod(t *testing.T, w *world, name string) (saw string) {
	p := newPod(name, "sleep")
	p.Spec.Resources = wholeResources("200m", "64Mi")
	own, again := container("own", "sleep"), container("again", "sleep")
	own.Resources = exactly("50m", "16Mi")
	again.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory,
		RestartPolicy: v1.RestartContainer}}
	always := v1.ContainerRestartPolicyAlways
	side := container("side", "sleep")
	side.RestartPolicy = &always
	p.Spec.Containers, p.Spec.InitContainers = append(p.Spec.Containers, own, again), []v1.Container{side}
	w.create(t, p)
	p = w.until(t, 60*time.Second, name, ready)
	saw = cgroupsOf(t, w, p, "cpu.shares cpu.weight")

	patch := `{"spec":{"resources":{"limits":{"cpu":"300m","memory":"96Mi"}}}}`
	_, err := w.Client.CoreV1().Pods(namespace).
		Patch(w.ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	must(t, err)
	p = w.until(t, 120*time.Second, name, func(p *v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return fmt.Errorf("a resize is not over: %+v", c)
			}
		}
		if r := p.Status.Resources; r == nil || r.Limits.Memory().String() != "96Mi" {
			return fmt.Errorf("it has %v", p.Status.Resources)
		}
		if c := statusOf(p, "again"); c.RestartCount != 1 {
			return fmt.Errorf("%s was restarted %d times", c.Name, c.RestartCount)
		}
		return ready(p)
	})
	saw += cgroupsOf(t, w, p, "") // upstream's takes the shares of a container away that requests no processor
	w.remove(t, name, nil)
	w.untilGone(t, name)
	return saw
}

func statusOf(p *v1.Pod, name string) v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return v1.ContainerStatus{}
}

// cgroupsOf returns a line for each container: its restarts, the limits of its cgroup with those in shares, the score
// of its process, and the resources in its status.
func cgroupsOf(t *testing.T, w *world, p *v1.Pod, shares string) (out string) {
	t.Helper()
	for _, name := range []string{"app", "own", "again", "side"} {
		c := statusOf(p, name)
		_, id, _ := strings.Cut(c.ContainerID, "://")
		line := fmt.Sprintf("%s %d", name, c.RestartCount)
		for _, one := range []struct{ controller, file string }{{"cpu", "cpu.cfs_quota_us cpu.max"}, {"cpu", shares},
			{"memory", "memory.limit_in_bytes memory.max"}, {"memory", "cgroup.procs"}} {
			if one.file == "" {
				continue
			}
			text := readCgroup(t, w, one.controller, id, strings.Fields(one.file))
			if one.file == "cgroup.procs" {
				score, err := os.ReadFile("/proc/" + text + "/oom_score_adj")
				must(t, err)
				text = strings.TrimSpace(string(score))
			}
			line += " " + text
		}
		if r := c.Resources; r != nil {
			line += fmt.Sprintf(" %s/%s %s/%s", r.Requests.Cpu(), r.Limits.Cpu(), r.Requests.Memory(),
				r.Limits.Memory())
		}
		out += line + "\n"
	}

	return out
}

// readCgroup returns the first word of the file with one of these names in a container's cgroup, of either version.
func readCgroup(t *testing.T, w *world, controller, id string, files []string) (text string) {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/" + controller + w.CgroupRoot(), "/sys/fs/cgroup" + w.CgroupRoot()} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || d.Name() != id {
				return nil
			}
			for _, file := range files {
				if data, err := os.ReadFile(filepath.Join(path, file)); err == nil &&
					len(strings.Fields(string(data))) > 0 {
					text = strings.Fields(string(data))[0]
				}
			}
			return nil
		})
	}
	if text == "" {
		t.Fatalf("container %s has none of %v", id, files)
	}
	return text
}
