package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// testAdmission: pods that are bound to the node without a scheduler, and cannot run there, fail with upstream's
// reasons.
func testAdmission(t *testing.T, w *world) {
	port := func(name string) *v1.Pod {
		p := newPod(name, "sleep")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 28080}}
		return p
	}
	w.create(t, port("holds-port"))
	w.until(t, 20*time.Second, "holds-port", ready)

	selector, otherOS, greedy := newPod("selector", "sleep"), newPod("windows", "sleep"), newPod("greedy", "sleep")
	unsafe := newPod("unsafe", "sleep")
	unsafe.Spec.SecurityContext = &v1.PodSecurityContext{
		Sysctls: []v1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}, {Name: "kernel.msgmax", Value: "10000"}}}
	selector.Spec.NodeSelector = map[string]string{"disk": "none"}
	otherOS.Spec.OS = &v1.PodOS{Name: v1.Windows}
	greedy.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("5000")}

	for _, c := range []struct {
		pod             *v1.Pod
		reason, message string
	}{
		{port("wants-port"), "NodePorts",
			"Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"},
		{selector, "NodeAffinity",
			"Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		{otherOS, "PodOSNotSupported", "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"},
		{unsafe, "SysctlForbidden", `Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted`},
		{greedy, "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000000"},
	} {
		w.create(t, c.pod)
		failed := w.until(t, 20*time.Second, c.pod.Name, inPhase(v1.PodFailed))
		if failed.Status.Reason != c.reason || !strings.HasPrefix(failed.Status.Message, c.message) {
			t.Errorf("pod %s: %s: %s", c.pod.Name, failed.Status.Reason, failed.Status.Message)
		}
		if text := w.untilEvent(t, c.pod.Name, c.reason); !strings.HasSuffix(failed.Status.Message, text) {
			t.Errorf("pod %s: the event says %q", c.pod.Name, text)
		}
		w.remove(t, c.pod.Name, nil)
	}
	w.remove(t, "holds-port", nil)
}

// testRuntimeClass: the sandbox gets the handler of the class, and the pod's cgroup its overhead. If the runtime does
// not have the handler, the pod waits and has an event.
func testRuntimeClass(t *testing.T, w *world) {
	class := func(name, handler string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler,
			Overhead: &nodev1.Overhead{PodFixed: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}}}
	}
	for _, c := range []*nodev1.RuntimeClass{class("plain", "runc"), class("strange", "no-such-handler")} {
		_, err := w.Client.NodeV1().RuntimeClasses().Create(w.ctx, c, metav1.CreateOptions{})
		must(t, err)
		p := newPod(c.Name, "sleep")
		p.Spec.RuntimeClassName = &c.Name
		w.create(t, p)
	}

	p := w.until(t, 20*time.Second, "plain", ready)
	boxes, err := w.Runtime.ListPodSandbox(w.ctx,
		&cri.ListPodSandboxRequest{
			Filter: &cri.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}}})
	must(t, err)
	if len(boxes.Items) != 1 || boxes.Items[0].RuntimeHandler != "runc" {
		t.Errorf("sandboxes: %+v", boxes.Items)
	}

	below := filepath.Join(w.CgroupRoot(), "kubepods", "besteffort", "pod"+string(p.UID))
	found := false
	for file, want := range map[string]string{ // 250m of a CPU in the units of both versions of cgroups
		filepath.Join("/sys/fs/cgroup/cpu", below, "cpu.shares"): "256",
		filepath.Join("/sys/fs/cgroup", below, "cpu.weight"):     "10",
	} {
		if got, err := os.ReadFile(file); err == nil {
			found = true
			if strings.TrimSpace(string(got)) != want {
				t.Errorf("%s holds %s, want %s", file, got, want)
			}
		}
	}
	if !found {
		t.Error("the pod has no CPU cgroup")
	}

	if text := w.untilEvent(t, "strange", "FailedCreatePodSandBox"); !strings.Contains(text, "no-such-handler") {
		t.Errorf("the event says %q", text)
	}
	w.until(t, time.Second, "strange", inPhase(v1.PodPending))
	w.remove(t, "plain", nil)
	w.remove(t, "strange", nil)
}

// testForeignStatus: what others write into the node's status is kept, and labels by which pods are placed are
// corrected.
func testForeignStatus(t *testing.T, w *world) {
	nodes := w.Client.CoreV1().Nodes()
	_, err := nodes.Patch(w.ctx, node, types.StrategicMergePatchType,
		[]byte(
			`{"status":{"capacity":{"example.com/fake":"1"},"conditions":[{"type":"Foreign","status":"True","reason":"Test","message":"by a test"}]}}`),
		metav1.PatchOptions{}, "status")
	must(t, err)
	_, err = nodes.Patch(w.ctx, node, types.StrategicMergePatchType,
		[]byte(`{"metadata":{"labels":{"kubernetes.io/os":"windows","kept":"yes"}}}`), metav1.PatchOptions{})
	must(t, err)
	must(t, wait.For(w.ctx, 20*time.Second, "the node's status", func(ctx context.Context) error {
		n, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		capacity, allocatable := n.Status.Capacity["example.com/fake"], n.Status.Allocatable["example.com/fake"]
		foreign := slices.ContainsFunc(n.Status.Conditions,
			func(c v1.NodeCondition) bool { return c.Type == "Foreign" })
		if capacity.Value() != 1 || !foreign || n.Labels["kept"] != "yes" {
			t.Fatalf("what others wrote is gone: %v, %v, %v", n.Status.Capacity, n.Status.Conditions, n.Labels)
		}
		if allocatable.Value() != 1 || n.Labels[v1.LabelOSStable] != "linux" {
			return fmt.Errorf("allocatable %v, labels %v", n.Status.Allocatable, n.Labels)
		}
		return nil
	}))

	fake := v1.ResourceList{"example.com/fake": resource.MustParse("1")}
	for _, name := range []string{"first", "second"} {
		p := newPod(name, "sleep")
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: fake, Limits: fake}
		w.create(t, p)
		if name == "first" {
			w.until(t, 20*time.Second, name, ready)
		}
	}
	if p := w.until(t, 20*time.Second, "second", inPhase(v1.PodFailed)); p.Status.Reason != "OutOfexample.com/fake" {
		t.Errorf("the second pod: %s: %s", p.Status.Reason, p.Status.Message)
	}
	w.remove(t, "first", nil)
	w.remove(t, "second", nil)
}

// testStandalone: without a kubeconfig the kubelet runs the pods of its folder only.
func testStandalone(t *testing.T, w *world) {
	w.kubelet.Stop()
	args := slices.DeleteFunc(w.KubeletArgs(node), func(a string) bool { return strings.HasPrefix(a, "--kubeconfig") })
	alone, err := w.Start("kubelet-alone", w.Program(), args...)
	must(t, err)
	w.manifest(t, "alone.json", newPod("alone", "sleep"))
	w.untilRunning(t, "alone-"+node)
	w.manifest(t, "alone.json", nil)
	must(t, wait.For(w.ctx, 20*time.Second, "the end of the pod",
		func(ctx context.Context) error { return runtimeEmpty(ctx, w) }))
	alone.Stop()
	w.startKubelet()
}

// testFullDisk: on a full disk new pods wait and have an event with the cause, and running pods go on. When there is
// space again, the new pods start.
func testFullDisk(t *testing.T, w *world) {
	w.kubelet.Stop()
	root := w.KubeletRoot(node)
	must(t, unix.Mount("tmpfs", root, "tmpfs", 0, "size=2m"))     // room for the kubelet's own files and a few pods
	t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) }) // if the test ended early
	w.startKubelet()
	w.create(t, newPod("runs", "sleep"))
	id := w.until(t, 20*time.Second, "runs", ready).Status.ContainerStatuses[0].ContainerID

	full := filepath.Join(root, "full")
	if err := os.WriteFile(full, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	_, err := w.Client.CoreV1().ConfigMaps(namespace).
		Create(w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"},
			Data: map[string]string{"file": strings.Repeat("x", 64<<10)}}, metav1.CreateOptions{})
	must(t, err)

	p := newPod("waits", "sleep")
	p.Spec.Volumes = []v1.Volume{{Name: "large",
		VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "large"}}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "large", MountPath: "/large"}}
	w.create(t, p)
	if text := w.untilEvent(t, "waits", "FailedMount"); !strings.Contains(text, "no space left on device") {
		t.Errorf("the event says %q", text)
	}
	w.until(t, time.Second, "waits", inPhase(v1.PodPending))
	if c := w.until(t, 5*time.Second, "runs", ready).Status.ContainerStatuses[0]; c.ContainerID != id ||
		c.RestartCount != 0 {
		t.Errorf("the pod that ran: %+v", c)
	}

	must(t, os.Remove(full))
	w.until(t, 60*time.Second, "waits", ready)
	w.remove(t, "waits", nil)
	w.remove(t, "runs", nil)
	w.untilGone(t, "waits")
	w.untilGone(t, "runs")
	w.kubelet.Stop()
	must(t, unix.Unmount(root, 0))
	w.startKubelet()
}
