package kubelet

import (
	"strings"
	"testing"
)

// Row 1.32.
func TestNetworkPlugin(t *testing.T) {
	for value, want := range map[string]string{"cni": "", "": "",
		"kubenet": "was removed with Kubernetes 1.24 and never ran on Windows: use `porthole routes`",
		"weave":   "Weave ended", "exec": "only cni is there"} {
		c := Command()
		err := c.ParseFlags([]string{"--network-plugin=" + value})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--network-plugin=%s: %v, want %q", value, err, want)
		}
	}
}
