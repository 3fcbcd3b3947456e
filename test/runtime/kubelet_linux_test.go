package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/internal/testkit/winhost"
)

// peer is a host on which upstream's kubelet runs.
type peer struct {
	*winhost.Host
	t *testing.T
}

// TestUpstreamKubelet runs upstream's kubelet.exe, unmodified, beside containerd.exe: it becomes a Ready node, runs a
// pod, and tells what the node and the pod use.
func TestUpstreamKubelet(t *testing.T) {
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		t.Skip("takes two minutes: PORTHOLE_RUNTIME=long, or `make test-runtime`")
	}
	w := peer{buildPrograms(t).kubeletHost(t), t}
	begin := time.Now()
	if _, err := w.StartKubelet(t.Context(), winhost.Upstream); err != nil {
		t.Fatalf("%v\n%s", err, w.KubeletLog(winhost.Upstream))
	}
	t.Logf("Ready %v after its start", time.Since(begin).Round(100*time.Millisecond))

	w.checkNode(w.Client)
	w.runKubeletPod(w.Client)
	w.checkSummary(w.Client)
	w.endKubeletPod(w.Client)
}

// buildKubelet builds our kubelet.exe where winhost finds it.
func (p programs) buildKubelet(t *testing.T) {
	t.Helper()
	if !p.built {
		command(t, forWindows, "go", "build", "-o", filepath.Join(p.dir, "bin", "windows", "kubelet.exe"),
			"../../cmd/porthole")
	}
}

// kubeletHost makes a host with a control plane, whose containerd.exe can run pods. The test's end removes it.
func (p programs) kubeletHost(t *testing.T) *winhost.Host {
	t.Helper()
	h, err := winhost.Create(t.Context(),
		winhost.Host{Porthole: p.porthole, Dir: p.state, Name: fmt.Sprintf("t%d", os.Getpid())}, "20348")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, node := range []string{winhost.Ours, winhost.Upstream} {
				t.Logf("kubelet.exe of node %s says:\n%s", node, h.KubeletLog(node))
			}
		}
		if err := h.Delete(); err != nil {
			t.Error(err)
		}
	})
	usePowershell(t, h.DriveC())
	for _, step := range []func(context.Context) error{h.ConnectRuntime, h.ServeImages, h.JoinNetwork,
		func(ctx context.Context) error { return h.StartControlPlane(ctx, "default") }} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// eventually waits until f returns nil.
func (w *peer) eventually(limit time.Duration, what string, f func(context.Context) error) {
	w.t.Helper()
	if err := wait.For(w.t.Context(), limit, what, f); err != nil {
		w.t.Fatal(err)
	}
}

// checkNode looks at what kubelet.exe found out about the machine.
func (w *peer) checkNode(client kubernetes.Interface) {
	w.t.Helper()
	n, err := client.CoreV1().Nodes().Get(w.t.Context(), winhost.Upstream, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	i := n.Status.NodeInfo
	if i.OperatingSystem != "windows" || i.KubeletVersion != "v1.36.3" ||
		!strings.HasPrefix(i.KernelVersion, "10.0.20348.") ||
		i.ContainerRuntimeVersion != "containerd://2.3.6" || i.OSImage != "Windows Server 2022 Datacenter" ||
		i.SystemUUID == "" || i.BootID == "" {
		w.t.Errorf("the node says of itself: %+v", i)
	}
	if n.Status.Capacity.Memory().IsZero() || n.Status.Capacity.Cpu().IsZero() ||
		n.Labels["node.kubernetes.io/windows-build"] != "10.0.20348" {
		w.t.Errorf("capacity %v, labels %v", n.Status.Capacity, n.Labels)
	}
}

// runKubeletPod gives the node a pod with a volume and a probe, and waits until it is Ready.
func (w *peer) runKubeletPod(client kubernetes.Interface) {
	w.t.Helper()
	no := false
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.PodSpec{
		NodeName: winhost.Upstream, AutomountServiceAccountToken: &no, OS: &v1.PodOS{Name: v1.Windows},
		Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
		Containers: []v1.Container{{
			Name: "web", Image: testImage, Args: []string{"serve"},
			VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: `C:\data`}},
			ReadinessProbe: &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10,
				ProbeHandler: v1.ProbeHandler{
					Exec: &v1.ExecAction{Command: []string{"cmd", "/c", "echo up&& exit 0"}}}},
		}},
	}}
	begin := time.Now()
	if _, err := client.CoreV1().Pods("default").Create(w.t.Context(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually(2*time.Minute, "the pod is Ready", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodReady && c.Status == v1.ConditionTrue && p.Status.PodIP != "" {
				return nil
			}
		}
		return fmt.Errorf("status %+v", p.Status)
	})
	w.t.Logf("the pod is Ready after %v", time.Since(begin).Round(100*time.Millisecond))

	log, err := client.CoreV1().Pods("default").GetLogs("web", &v1.PodLogOptions{}).DoRaw(w.t.Context())
	if err != nil || !strings.Contains(string(log), "serving HTTP") {
		w.t.Errorf("the pod's log: %q, %v", log, err)
	}
}

// checkSummary waits for figures of the node, which come from performance counters, and of the pod.
func (w *peer) checkSummary(client kubernetes.Interface) {
	w.t.Helper()
	var s struct {
		Node struct {
			CPU     struct{ UsageNanoCores uint64 }
			Memory  struct{ WorkingSetBytes, AvailableBytes uint64 }
			Network struct {
				Interfaces []struct {
					Name    string
					RxBytes uint64
				}
			}
		}
		Pods []struct {
			Containers []struct {
				Memory struct{ WorkingSetBytes uint64 }
			}
		}
	}

	err := wait.For(w.t.Context(), time.Minute, "figures of the node", func(ctx context.Context) error {
		data, err := client.CoreV1().RESTClient().Get().
			AbsPath("/api/v1/nodes/" + winhost.Upstream + "/proxy/stats/summary").DoRaw(ctx)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		received := uint64(0)
		for _, i := range s.Node.Network.Interfaces {
			received += i.RxBytes
		}
		if s.Node.CPU.UsageNanoCores == 0 || s.Node.Memory.WorkingSetBytes == 0 || s.Node.Memory.AvailableBytes == 0 ||
			received == 0 ||
			len(s.Pods) != 1 || len(s.Pods[0].Containers) != 1 || s.Pods[0].Containers[0].Memory.WorkingSetBytes == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})

	if err != nil {
		w.t.Error(err)
	}
	w.t.Logf("%+v", s)
}

// endKubeletPod deletes the pod, and finds nothing left of it in the runtime.
func (w *peer) endKubeletPod(client kubernetes.Interface) {
	w.t.Helper()
	grace := int64(5)
	if err := client.CoreV1().Pods("default").
		Delete(w.t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually(2*time.Minute, "the pod is gone", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = errors.New("it is there")
		}
		return err
	})
}
