package join

import (
	"strings"
	"testing"
)

// TestBrokenSettings: a kubelet-config of the cluster that the kubelet would refuse is refused before anything is
// done, with its field.
func TestBrokenSettings(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	if err := checkKubeletConfig([]byte(head + "maxPods: 50\n")); err != nil {
		t.Fatalf("a right one: %v", err)
	}
	for text, want := range map[string]string{
		head + "maxPods: -1\n":                                               "maxPods",
		head + "maxPods: many\n":                                             "maxPods",
		head + "evictionHard: {memory.available: 5x}\n":                      "memory.available",
		head + "imageGCHighThresholdPercent: 101\n":                          "imageGCHighThresholdPercent",
		head + "readOnlyPort: 70000\n":                                       "readOnlyPort",
		head + "nodeStatusUpdateFrequency: soon\n":                           "soon",
		head + "topologyManagerPolicy: [\n":                                  "line 3",
		head + "shutdownGracePeriodCriticalPods: 30s\n":                      "shutdownGracePeriod",
		"apiVersion: v1\nkind: Pod\n":                                        "Pod",
		"apiVersion: kubelet.config.k8s.io/v9\nkind: KubeletConfiguration\n": "v9",
	} {
		err := checkKubeletConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "edit configmap kubelet-config, or") {
			t.Errorf("%q: %v, want %q", text[min(len(text), len(head)):], err, want)
		}
	}
}
