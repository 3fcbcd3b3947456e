package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// evictedWithin is how long it may take from the moment at which too little is left until the pod has ended. The
// kubelet measures every 10 s; the rest is for a machine that other tests keep busy.
const evictedWithin = 30 * time.Second

// podsMemory is what the pods of the node may have together in testMemoryEviction, in MiB. All other memory is
// reserved, so that what others do on this machine has no part in it.
const podsMemory = 800

// memoryConfig is the configuration of testMemoryEviction.
func memoryConfig(t *testing.T) map[string]any {
	t.Helper()
	host, err := platform.ReadHost("/")
	must(t, err)
	return map[string]any{
		"systemReserved":         map[string]string{"memory": fmt.Sprint(host.MemoryBytes - podsMemory<<20)},
		"enforceNodeAllocatable": []string{"pods"}, "evictionHard": map[string]string{"memory.available": "100Mi"},
		"evictionPressureTransitionPeriod": "10s"}
}

// testMemoryEviction: pods use more memory than they may have together. The one that uses most above its request ends,
// in time and with upstream's words; others go on, critical ones too; the node says that it was under pressure, and no
// longer when the time is over.
func testMemoryEviction(t *testing.T, w *world) {
	critical := newPod("critical", "hog", "150")
	critical.Spec.PriorityClassName = "system-node-critical"
	asked := newPod("asked", "hog", "200")
	asked.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("300Mi")}
	ids := map[string]string{}
	for _, p := range []*v1.Pod{critical, asked} {
		w.create(t, p)
	}
	for _, name := range []string{"critical", "asked"} {
		ids[name] = w.until(t, 30*time.Second, name, ready).Status.ContainerStatuses[0].ContainerID
	}

	w.create(t, newPod("greedy", "hog", "380")) // more than is to be used, and less than the kernel allows all pods
	p := w.until(t, time.Minute, "greedy", inPhase(v1.PodFailed))
	ended := p.Status.ContainerStatuses[0].State.Terminated
	if ended == nil {
		t.Fatalf("the container: %+v", p.Status.ContainerStatuses[0])
	}
	took := ended.FinishedAt.Sub(ended.StartedAt.Time) // times of the API are whole seconds
	t.Logf("from the start of the container that used too much until its end: %v", took)
	if took > evictedWithin {
		t.Errorf("the pod was gone %v after its start", took)
	}
	if p.Status.Reason != "Evicted" ||
		!strings.HasPrefix(p.Status.Message,
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: ") ||
		!strings.Contains(p.Status.Message, "Container app was using ") ||
		!strings.HasSuffix(p.Status.Message, ", request is 0, has larger consumption of memory. ") {
		t.Errorf("reason %s: %s", p.Status.Reason, p.Status.Message)
	}
	disrupted := false
	for _, c := range p.Status.Conditions {
		disrupted = disrupted || c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue &&
			c.Reason == v1.PodReasonTerminationByKubelet
	}
	if !disrupted {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}

	untilCondition(t, w, v1.NodeMemoryPressure, v1.ConditionTrue)
	w.untilEvent(t, node, "EvictionThresholdMet")
	if notes := evictionNotes(t, w, "greedy"); notes["offending_containers"] != "app" ||
		notes["starved_resource"] != "memory" {
		t.Errorf("annotations of the event: %v", notes)
	}
	w.create(t, newPod("late", "sleep"))
	if late := w.until(t, 20*time.Second, "late",
		inPhase(v1.PodFailed)); late.Status.Message != "Pod was rejected: The node had condition: [MemoryPressure]. " {
		t.Errorf("a pod that came under pressure: %s", late.Status.Message)
	}
	untilCondition(t, w, v1.NodeMemoryPressure, v1.ConditionFalse)

	for name, id := range ids {
		if c := w.until(t, time.Second, name, ready).Status.ContainerStatuses[0]; c.ContainerID != id {
			t.Errorf("pod %s is in another container", name)
		}
	}
	if text := ask(t, w, "metrics"); !strings.Contains(text,
		`kubelet_evictions{eviction_signal="allocatableMemory.available"} 1`) {
		t.Error("the eviction is not in the figures")
	}
	for _, name := range []string{"critical", "asked", "greedy", "late"} {
		w.remove(t, name, nil)
	}
}

// testDiskEviction: the node's own file system is nearly full. The pod whose volume fills it ends, and what it had is
// removed.
func testDiskEviction(t *testing.T, w *world) {
	w.kubelet.Stop()
	root := w.KubeletRoot(node)
	must(t, unix.Mount("tmpfs", root, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) }) // if the test ended early
	w.startKubelet()

	for _, name := range []string{"steady", "writer"} {
		p := newPod(name, "sleep")
		p.Spec.Volumes = []v1.Volume{{Name: "scratch",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		w.create(t, p)
	}
	fill(t, w, "steady", 1)
	fill(t, w, "writer", 40)
	began := time.Now()
	p := w.until(t, time.Minute, "writer", inPhase(v1.PodFailed))
	t.Logf("from the full disk until the pod was failed in the API: %v", time.Since(began))
	if time.Since(began) > evictedWithin || p.Status.Reason != "Evicted" ||
		!strings.HasPrefix(p.Status.Message,
			"The node was low on resource: ephemeral-storage. Threshold quantity: 32Mi, available: ") {
		t.Errorf("after %v: %s: %s", time.Since(began), p.Status.Reason, p.Status.Message)
	}
	untilCondition(t, w, v1.NodeDiskPressure, v1.ConditionTrue)
	untilCondition(t, w, v1.NodeDiskPressure, v1.ConditionFalse) // the volume is gone
	w.until(t, time.Second, "steady", ready)

	w.remove(t, "steady", nil)
	w.remove(t, "writer", nil)
	w.untilGone(t, "steady")
	w.untilGone(t, "writer")
	w.kubelet.Stop()
	must(t, unix.Unmount(root, 0))
	w.startKubelet()
}

// testLocalLimits: pods whose volumes grow above the limits of their own end, and the node is not under pressure.
func testLocalLimits(t *testing.T, w *world) {
	size := resource.MustParse("1Mi")
	sized := newPod("sized", "sleep")
	sized.Spec.Volumes = []v1.Volume{{Name: "scratch",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}}}
	limited := newPod("limited", "sleep")
	limited.Spec.Volumes = []v1.Volume{{Name: "scratch",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	limited.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: size}
	free := newPod("free", "sleep")
	free.Spec.Volumes = limited.Spec.Volumes
	for _, p := range []*v1.Pod{sized, limited, free} {
		w.create(t, p)
	}

	for _, name := range []string{"sized", "limited", "free"} {
		fill(t, w, name, 2)
	}
	for name, message := range map[string]string{
		"sized":   `Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". `,
		"limited": "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "} {
		p := w.until(t, time.Minute, name, inPhase(v1.PodFailed))
		if p.Status.Reason != "Evicted" || p.Status.Message != message {
			t.Errorf("pod %s: %s: %s", name, p.Status.Reason, p.Status.Message)
		}
	}
	w.until(t, time.Second, "free", ready)
	untilCondition(t, w, v1.NodeDiskPressure, v1.ConditionFalse)
	for _, name := range []string{"sized", "limited", "free"} {
		w.remove(t, name, nil)
	}
}

// fill waits for a pod and writes a file of so many MiB into its volume "scratch".
func fill(t *testing.T, w *world, name string, mib int) {
	t.Helper()
	p := w.until(t, 30*time.Second, name, ready)
	dir := filepath.Join(w.KubeletRoot(node), "pods", string(p.UID), "volumes", "kubernetes.io~empty-dir", "scratch")
	must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, mib<<20), 0o600))
}

// untilCondition waits until the node has a condition.
func untilCondition(t *testing.T, w *world, kind v1.NodeConditionType, want v1.ConditionStatus) {
	t.Helper()
	must(t, wait.For(w.ctx, 40*time.Second, fmt.Sprintf("%s to be %s", kind, want), func(ctx context.Context) error {
		n, err := w.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == kind && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", n.Status.Conditions)
	}))
}

// evictionNotes returns the annotations of the event about an evicted pod.
func evictionNotes(t *testing.T, w *world, name string) (notes map[string]string) {
	t.Helper()
	must(t, wait.For(w.ctx, 20*time.Second, "the event Evicted of "+name, func(ctx context.Context) error {
		list, err := w.Client.CoreV1().Events(namespace).
			List(ctx, metav1.ListOptions{FieldSelector: "reason=Evicted,involvedObject.name=" + name})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("there is none")
		}
		notes = list.Items[0].Annotations
		return nil
	}))
	return notes
}
