package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func exactly(cpu, memory string) v1.ResourceRequirements {
	l := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	return v1.ResourceRequirements{Requests: l, Limits: l}
}

// testResize: a running pod gets other limits without a restart where its policy says so, and with one where not, and
// its cgroup has them. What changes while there is no kubelet is noticed by the next one.
func testResize(t *testing.T, w *world) {
	p := newPod("resize", "sleep")
	p.Spec.Containers[0].Resources = exactly("20m", "32Mi")
	p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory,
		RestartPolicy: v1.RestartContainer}}
	w.create(t, p)
	p = w.until(t, time.Minute, p.Name, ready)
	before := p.Status.ContainerStatuses[0]
	if c := w.podCgroup(t, p); c != "2000 33554432" {
		t.Errorf("the pod's cgroup has %s", c)
	}

	w.resize(t, p.Name, exactly("40m", "32Mi"))
	p = w.until(t, time.Minute, p.Name, has(exactly("40m", "32Mi")))
	if now := p.Status.ContainerStatuses[0]; now.ContainerID != before.ContainerID ||
		w.podCgroup(t, p) != "4000 33554432" {
		t.Errorf("container %s was %s, the pod's cgroup has %s", now.ContainerID, before.ContainerID, w.podCgroup(t, p))
	}
	w.untilEvent(t, p.Name, "ResizeStarted")
	w.untilEvent(t, p.Name, "ResizeCompleted")

	w.kubelet.Kill() // while it is away, the user asks for something that needs a restart
	w.resize(t, p.Name, exactly("20m", "48Mi"))
	w.startKubelet()
	p = w.until(t, time.Minute, p.Name, has(exactly("20m", "48Mi")))
	if s := p.Status.ContainerStatuses[0]; s.RestartCount != 1 || w.podCgroup(t, p) != "2000 50331648" {
		t.Errorf("%d restarts, the pod's cgroup has %s", s.RestartCount, w.podCgroup(t, p))
	}
	w.remove(t, p.Name, nil)
}

// has returns an error unless the resize of a pod is over and the pod has these resources.
func has(want v1.ResourceRequirements) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		s := p.Status.ContainerStatuses[0]
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return fmt.Errorf("a resize is not over: %+v", c)
			}
		}
		if s.Resources == nil || !equality.Semantic.DeepEqual(*s.Resources, want) ||
			!equality.Semantic.DeepEqual(s.AllocatedResources, want.Requests) {
			return fmt.Errorf("it has other resources: %+v", s)
		}
		return ready(p)
	}
}

func (w *world) resize(t *testing.T, name string, r v1.ResourceRequirements) {
	t.Helper()
	text := func(l v1.ResourceList) string { return fmt.Sprintf(`{"cpu":%q,"memory":%q}`, l.Cpu(), l.Memory()) }
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"requests":%s,"limits":%s}}]}}`,
		text(r.Requests), text(r.Limits))
	_, err := w.Client.CoreV1().Pods(namespace).
		Patch(w.ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	must(t, err)
}

// podCgroup reads the CPU quota and the memory limit of a guaranteed pod's cgroup.
func (w *world) podCgroup(t *testing.T, p *v1.Pod) string {
	t.Helper()
	below := filepath.Join(w.CgroupRoot(), "kubepods", "pod"+string(p.UID))
	if w.systemd {
		below = filepath.Join("kubepods.slice", sliceOf("kubepods", p))
	}
	var out []string
	for _, files := range [][]string{{"cpu/" + below + "/cpu.cfs_quota_us", below + "/cpu.max"},
		{"memory/" + below + "/memory.limit_in_bytes", below + "/memory.max"}} {
		text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", files[0]))
		if err != nil {
			text, err = os.ReadFile(filepath.Join("/sys/fs/cgroup", files[1]))
		}
		must(t, err)
		first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		out = append(out, first)
	}
	return strings.Join(out, " ")
}
