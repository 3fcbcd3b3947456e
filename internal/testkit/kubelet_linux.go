package testkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// KubeletRoot is the root folder of a node's kubelet.
func (h *home) KubeletRoot(node string) string { return h.Path("kubelet", node) }

// PodLogs is the folder of a node's container logs.
func (h *home) PodLogs(node string) string { return h.Path("log", node, "pods") }

// Manifests is the folder of a node's static pods.
func (h *home) Manifests(node string) string { return h.Path("manifests", node) }

// StartKubelet starts a kubelet as LaunchKubelet does, and returns when the node is Ready.
func (w *World) StartKubelet(ctx context.Context, node string, upstream bool) (*Process, error) {
	began := metav1.Now()
	p, err := w.LaunchKubelet(node, upstream)
	if err != nil {
		return nil, err
	}
	return p, wait.For(ctx, 3*time.Minute, "node "+node, func(ctx context.Context) error {
		select {
		case <-p.done:
			return fmt.Errorf("the kubelet ended: %s", w.Logs(3000))
		default:
		}
		n, err := w.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue &&
				!c.LastHeartbeatTime.Time.Before(began.Truncate(time.Second)) {
				return nil
			}
		}
		return errors.New("it is not Ready")
	})
}

// Program is the program whose kubelet runs.
func (w *World) Program() string { return w.o.Porthole }

// DevicePlugins is the folder in which our kubelet of the node serves device plugins, so that a test does not use the
// machine's.
func (w *World) DevicePlugins(node string) string {
	return filepath.Join(w.KubeletRoot(node), "device-plugins")
}

// KubeletArgs are the arguments of Program with which StartKubelet starts our kubelet.
func (w *World) KubeletArgs(node string) []string {
	return append([]string{"kubelet"}, w.kubeletFlags(node)...)
}

// kubeletFlags are the flags of a kubelet of either kind.
func (w *World) kubeletFlags(node string) []string {
	return append([]string{"--config=" + w.Path(node+"-kubelet.json"), "--kubeconfig=" + w.kubeconfig(node),
		"--hostname-override=" + node, "--node-ip=" + NodeIP, "--root-dir=" + w.KubeletRoot(node),
		"--cert-dir=" + w.KubeletRoot(node) + "/pki", "--v=2"}, w.KubeletFlags...)
}

// LaunchKubelet starts our kubelet as the node, or upstream's, and does not wait for it. Only one kubelet can run at a
// time: they share containerd and ports.
func (w *World) LaunchKubelet(node string, upstream bool) (*Process, error) {
	config := w.Path(node + "-kubelet.json")
	content := w.kubeletConfig(node)
	maps.Copy(content, w.KubeletConfig)
	if err := errors.Join(os.MkdirAll(w.PodLogs(node), 0o755), os.MkdirAll(w.Manifests(node), 0o755),
		os.WriteFile(w.Path("resolv.conf"), nil, 0o644),
		WriteJSON(config, content)); err != nil {
		return nil, err
	}
	if upstream {
		return w.Start("kubelet-"+node, w.bundled("kubelet"), w.kubeletFlags(node)...)
	}
	return w.Start("kubelet-"+node, w.o.Porthole,
		append(w.KubeletArgs(node), "--device-plugin-dir="+w.DevicePlugins(node), "--keep-kernel-settings")...)
}

// kubeletConfig is the same for both kubelets.
func (w *World) kubeletConfig(node string) object {
	root := w.CgroupRoot()
	if w.o.SystemdCgroups {
		root = "/"
	}
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{"anonymous": object{"enabled": true}, "webhook": object{"enabled": false}},
		"authorization":  object{"mode": "AlwaysAllow"},

		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               root,
		"clusterDNS":               []string{"10.96.0.10"},
		"clusterDomain":            "cluster.local",
		"containerRuntimeEndpoint": "unix://" + w.endpoint(),
		"enforceNodeAllocatable":   []string{},
		"evictionHard":             object{"memory.available": "100Mi"},

		// The tests fill the disk. The images that pods need must stay all the same.
		"imageGCHighThresholdPercent":   100,
		"failCgroupV1":                  false,
		"maxPods":                       300,
		"failSwapOn":                    false,
		"podLogsDir":                    w.PodLogs(node),
		"resolvConf":                    w.Path("resolv.conf"),
		"staticPodPath":                 w.Manifests(node),
		"serializeImagePulls":           false,
		"nodeStatusUpdateFrequency":     "1s",
		"nodeStatusReportFrequency":     "10s", // what does not change; without it also once a second
		"makeIPTablesUtilChains":        false,
		"localStorageCapacityIsolation": false,
	}
}

// Namespace makes a namespace in which pods can be made.
func (w *World) Namespace(ctx context.Context, name string) error {
	_, err := w.Client.CoreV1().Namespaces().
		Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return wait.For(ctx, 30*time.Second, "namespace "+name,
		func(ctx context.Context) error { return w.accountReady(ctx, name) })
}
