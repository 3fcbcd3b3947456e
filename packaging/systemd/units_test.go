package systemd

import (
	"strings"
	"testing"
)

// TestUnits: each unit starts the program that is given, and nothing is left to fill in.
func TestUnits(t *testing.T) {
	for _, tc := range []struct {
		program, defaults string
		want              map[string]string
	}{
		{"/usr/lib/porthole/porthole", DefaultsDebian,
			map[string]string{Kubelet: "ExecStart=/usr/lib/porthole/porthole kubelet\n",
				DropIn: "ExecStart=/usr/lib/porthole/porthole kubelet $KUBELET_KUBECONFIG_ARGS",
				Routes: "ExecStart=/usr/lib/porthole/porthole routes --kubeconfig=/etc/kubernetes/kubelet.conf"}},
		{"", DefaultsRPM, map[string]string{Kubelet: "ExecStart=/usr/bin/kubelet\n",
			DropIn: "EnvironmentFile=-/etc/sysconfig/kubelet\n",
			Routes: "EnvironmentFile=-/etc/sysconfig/porthole-routes\nExecStart=/usr/bin/porthole routes"}},
	} {
		units := Units(tc.program, tc.defaults)
		for name, want := range tc.want {
			text := string(units[name])
			if !strings.Contains(text, want) || strings.Contains(text, "@") ||
				strings.Contains(text, "/usr/bin/") != (tc.program == "") {
				t.Errorf("%s for %q has no %q:\n%s", name, tc.program, want, text)
			}
			if name != Kubelet && !strings.Contains(text, "EnvironmentFile=-"+Environment+"\n") {
				t.Errorf("%s does not read %s", name, Environment)
			}
		}
	}
}
