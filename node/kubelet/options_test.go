package kubelet

import (
	"testing"

	v1beta1 "k8s.io/kubelet/config/v1beta1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"porthole.dev/porthole/internal/platform"
)

func TestNodeLabels(t *testing.T) {
	labels, err := parseLabels(
		"a=b,node.kubernetes.io/pool=x,kubelet.kubernetes.io/y=,example.com/z=1,topology.kubernetes.io/zone=z")
	if err != nil || len(labels) != 5 || labels["node.kubernetes.io/pool"] != "x" {
		t.Errorf("labels %v, error %v", labels, err)
	}
}

// TestDeviceFolder: plugins find the kubelet where upstream's is, whatever its own folder is, unless it is told
// another.
func TestDeviceFolder(t *testing.T) {
	for _, c := range []struct {
		given, root string
		windows     bool
		want        string
	}{
		{"", "/var/lib/kubelet", false, "/var/lib/kubelet/device-plugins"},
		{"", "/data/kubelet", false, "/var/lib/kubelet/device-plugins"},
		{"/d/plugins", "/data/kubelet", false, "/d/plugins"},
		{"", `D:\kubelet`, true, `D:\var\lib\kubelet\device-plugins`},
		{`C:\p`, `D:\kubelet`, true, `C:\p`},
	} {
		if got := deviceFolder(c.given, c.root, c.windows); got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.given, c.root, got, c.want)
		}
	}
	if deviceFolder("", "/x", false)+"/" != api.DevicePluginPath {
		t.Errorf("the library has %s", api.DevicePluginPath)
	}
}

// TestForPods: what is reserved is taken off where that is to be enforced, thresholds are not.
func TestForPods(t *testing.T) {
	host := platform.Host{CPUs: 2, MemoryBytes: 1 << 30}
	cfg := &v1beta1.KubeletConfiguration{KubeReserved: map[string]string{"memory": "256Mi"},
		SystemReserved: map[string]string{"cpu": "500m", "pid": "100"},
		EvictionHard:   map[string]string{"memory.available": "100Mi"}}
	for _, c := range []struct {
		enforce []string
		want    string
	}{{nil, "2 1Gi 1k"}, {[]string{"pods"}, "1500m 768Mi 900"}} {
		cfg.EnforceNodeAllocatable = c.enforce
		got, err := forPods(cfg, host, 1000)
		pids := got["pid"]
		if text := got.Cpu().String() + " " + got.Memory().String() + " " + pids.String(); text != c.want ||
			err != nil {
			t.Errorf("enforcing %v: %s, want %s: %v", c.enforce, text, c.want, err)
		}
	}
}
