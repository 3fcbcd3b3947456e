package kubelet

import (
	"runtime/debug"
	"testing"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestNodeLabels(t *testing.T) {
	labels, err := parseLabels("a=b,node.kubernetes.io/pool=x,kubelet.kubernetes.io/y=,example.com/z=1,topology.kubernetes.io/zone=z")
	if err != nil || len(labels) != 5 || labels["node.kubernetes.io/pool"] != "x" {
		t.Errorf("labels %v, error %v", labels, err)
	}
}

// TestCollectLessInBursts: a burst allows more garbage, afterwards the limit is as before. A user who sets Go's own variables decides
// alone.
func TestCollectLessInBursts(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if collectLessInBursts(func(asked string) string { return map[string]string{name: "50"}[asked] }) != nil {
			t.Errorf("with %s set there is still something that changes it", name)
		}
	}
	before := debug.SetGCPercent(usualGarbage)
	defer debug.SetGCPercent(before)
	burst := collectLessInBursts(func(string) string { return "" })
	burst(true)
	during := debug.SetGCPercent(burstGarbage)
	burst(false)
	if after := debug.SetGCPercent(usualGarbage); during != burstGarbage || after != usualGarbage {
		t.Errorf("garbage collection begins at %d %% during a burst and %d %% after it, want %d and %d", during, after, burstGarbage, usualGarbage)
	}
}

// TestDeviceFolder: plugins find the kubelet where upstream's is, whatever its own folder is, unless it is told another.
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
