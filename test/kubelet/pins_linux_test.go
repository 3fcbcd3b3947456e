package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	resources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/numa"
)

// pinConfig gives containers processors and memory alone, all but the first processor. The memory that is reserved is
// what the eviction threshold of all kubelets here keeps.
var pinConfig = map[string]any{
	"cpuManagerPolicy": "static", "cpuManagerReconcilePeriod": "1s", "reservedSystemCPUs": "0",
	"topologyManagerPolicy": "single-numa-node",
	"memoryManagerPolicy":   "Static",
	"reservedMemory":        []any{map[string]any{"numaNode": 0, "limits": map[string]string{"memory": "100Mi"}}},
}

// testPins: a container has a processor and memory alone, in its cgroup. The others leave that processor, and get it
// back. That outlives a kubelet that is killed, and upstream's kubelet in its place.
func testPins(t *testing.T, w *world) {
	machine, err := numa.Read(os.DirFS("/sys"), 0)
	must(t, err)
	if len(machine.CPUs) < 2 || len(machine.Nodes) != 1 {
		t.Skip("it is written for a machine of one NUMA node with two processors or more")
	}
	all, last := machine.All(), fmt.Sprint(len(machine.CPUs)-1)

	w.kubelet.Stop()
	before := w.KubeletConfig
	w.KubeletConfig = pinConfig
	refused, err := w.LaunchKubelet(node, false)
	must(t, err)
	must(t, wait.For(w.ctx, 20*time.Second, "the kubelet to refuse the file of another policy",
		func(context.Context) error {
			text, err := os.ReadFile(w.Path("kubelet-" + node + ".log"))
			if want :=
				`configured policy "static" differs from state checkpoint policy "none", please drain this node and delete the CPU manager checkpoint file`; !strings.Contains(string(text), strings.ReplaceAll(want, `"`, `\"`)) && !strings.Contains(string(text), want) {
				return fmt.Errorf("its log does not say so, %v", err)
			}
			return nil
		}))
	refused.Stop()
	forgetPins(t, w)
	w.startKubelet()
	defer func() {
		w.kubelet.Stop()
		forgetPins(t, w)
		w.KubeletConfig = before
		w.startKubelet()
	}()

	w.create(t, newPod("sharer", "sleep"))
	sharer := w.until(t, 20*time.Second, "sharer", ready)
	hasSet(t, w, sharer, "cpus", all.String())
	alone := newPod("alone", "sleep")
	alone.Spec.Containers[0].Resources = exactly(fmt.Sprint(len(machine.CPUs)-1), "32Mi")
	w.create(t, alone)
	alone = w.until(t, 20*time.Second, "alone", ready)
	mine := strings.TrimPrefix("1-"+last, map[bool]string{true: "1-"}[last == "1"])
	if c := w.podCgroup(t, alone); c != "-1 33554432" && c != "max 33554432" {
		t.Errorf("the cgroup of a pod that has processors alone has the quota and memory %s", c)
	}
	holds := func(when string) {
		t.Helper()
		hasSet(t, w, alone, "cpus", mine)
		hasSet(t, w, alone, "mems", "0")
		hasSet(t, w, sharer, "cpus", "0")
		for _, p := range []*v1.Pod{alone, sharer} {
			if now := w.until(t, time.Second, p.Name,
				ready); now.Status.ContainerStatuses[0].ContainerID != p.Status.ContainerStatuses[0].ContainerID {
				t.Errorf("%s: the container of pod %s was replaced", when, p.Name)
			}
		}
	}
	holds("at first")
	toldAlone(t, w, "alone", len(machine.CPUs)-1, 32<<20)

	late := newPod("late", "sleep")
	late.Spec.Containers[0].Resources = exactly("1", "32Mi")
	w.create(t, late)
	if p := w.until(t, 20*time.Second, "late", inPhase(v1.PodFailed)); p.Status.Reason != "TopologyAffinityError" ||
		p.Status.Message != "Pod was rejected: Resources cannot be allocated with Topology locality" {
		t.Errorf("a pod for which there is no processor: %s: %s", p.Status.Reason, p.Status.Message)
	}

	w.kubelet.Kill()
	w.startKubelet()
	holds("after a kill")
	w.kubelet.Stop()
	w.kubelet, err = w.StartKubelet(w.ctx, node, true)
	must(t, err)
	holds("with upstream's kubelet")
	w.kubelet.Stop()
	w.startKubelet()
	holds("back with ours")

	w.remove(t, "alone", nil)
	hasSet(t, w, sharer, "cpus", all.String())
	for _, name := range []string{"sharer", "late"} {
		w.remove(t, name, nil)
	}
}

// forgetPins removes the files of processors and memory, as an administrator who changes a policy.
func forgetPins(t *testing.T, w *world) {
	t.Helper()
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		must(t, os.Remove(filepath.Join(w.KubeletRoot(node), name)))
	}
}

// hasSet waits until the cgroup of a pod's only container has a set: cpus or mems.
func hasSet(t *testing.T, w *world, p *v1.Pod, kind, want string) {
	t.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	must(t, wait.For(w.ctx, 10*time.Second, "the "+kind+" of pod "+p.Name, func(context.Context) error {
		for _, pattern := range []string{"/sys/fs/cgroup/cpuset/" + w.CgroupRoot() + "/kubepods",
			"/sys/fs/cgroup/" + w.CgroupRoot() + "/kubepods"} {
			found, _ := filepath.Glob(pattern + "/pod*/" + id + "/cpuset." + kind)
			more, _ := filepath.Glob(pattern + "/*/pod*/" + id + "/cpuset." + kind)
			for _, file := range append(found, more...) {
				text, err := os.ReadFile(file)
				if got := strings.TrimSpace(string(text)); err != nil || got != want {
					return fmt.Errorf("%s has %s, want %s, %v", file, got, want, err)
				}
				return nil
			}
		}
		return fmt.Errorf("no cgroup of container %s", id)
	}))
}

// toldAlone asks the pod-resources API what a pod has alone.
func toldAlone(t *testing.T, w *world, name string, cpus int, memory uint64) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(w.KubeletRoot(node), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	answer, err := resources.NewPodResourcesListerClient(conn).
		Get(w.ctx, &resources.GetPodResourcesRequest{PodName: name, PodNamespace: namespace})
	must(t, err)
	got := answer.PodResources.Containers[0]
	if len(got.CpuIds) != cpus || len(got.Memory) != 1 || got.Memory[0].Size != memory ||
		got.Memory[0].MemoryType != "memory" {
		t.Errorf("pod %s has processors %v and memory %v alone", name, got.CpuIds, got.Memory)
	}
}
