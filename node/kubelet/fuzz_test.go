package kubelet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/config"
)

// FuzzSettings: any text for a flag or a quantity is refused, or yields labels and addresses that a node may have, and
// amounts that are not negative.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{"a=b,,c=", "node.kubernetes.io/a=b,kubernetes.io/x=y", "10.0.0.1, fd00::1", "1,2,3",
		"10%", "-1", "1e400", "NaN%", "9223372036854775807Ei", "9223372036854775807E", "0x1p-2%"} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, text string) {
		if labels, err := parseLabels(text); err == nil {
			for k, v := range labels {
				if len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0 ||
					strings.HasPrefix(k, "kubernetes.io/x") {
					t.Fatalf("%q gives the label %q=%q", text, k, v)
				}
			}
		}
		if ips, err := parseNodeIPs(text); err == nil && len(ips) > 2 {
			t.Fatalf("%q gives %v", text, ips)
		}
		data, err := json.Marshal(map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1",
			"kind":           "KubeletConfiguration",
			"evictionHard":   map[string]string{"memory.available": text, "nodefs.available": text},
			"systemReserved": map[string]string{"cpu": text}})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := config.Load(config.Source{File: path})
		if err != nil {
			return
		}
		eviction, err := evictionSettings(cfg)
		if err != nil {
			t.Fatalf("the configuration was accepted, and %v", err)
		}
		for _, x := range eviction.Thresholds {
			if !(x.Least.Percent >= 0 && x.Least.Percent <= 100) || x.Least.Number < 0 {
				t.Fatalf("%q is the threshold %+v", text, x)
			}
		}
		list, err := reserved(cfg, platform.Host{MemoryBytes: 1 << 30, DiskBytes: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		for name, q := range list {
			if q.Sign() < 0 {
				t.Fatalf("%q reserves %s of %s", text, q.String(), name)
			}
		}
	})
}
