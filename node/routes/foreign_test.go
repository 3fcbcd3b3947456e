package routes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// A configuration of others before ours is the one that pods get: that is said once, and the file stays as it is. One
// behind ours has no effect.
// Row 1.55.
func TestConfigurationsOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"Azure's, before ours": {"10-azure.conflist",
			`{"name":"azure","cniVersion":"0.3.0","plugins":[{"type":"azure-vnet"}]}`,
			"10-azure.conflist (azure-vnet), which the runtime reads before 10-porthole.conf"},
		"Calico's, before ours": {"10-calico.conf", `{"name":"Calico","type":"calico"}`, "(calico)"},
		"kube-ovn's, before ours": {"01-kube-ovn.conflist", `{"name":"kube-ovn","plugins":[{"type":"kube-ovn"}]}`,
			"(kube-ovn)"},
		"Weave's": {"10-Weave.conf", `{"name":"weave","type":"weave-net"}`, "Weave ended"},
		"one with a comma missing": {"05-x.conf", "{\n\"name\": \"x\"\n\"type\": \"y\"}",
			"05-x.conf, line 3, column 1"},
		"one behind ours":  {"20-other.conf", `{"name":"x","type":"calico"}`, ""},
		"no configuration": {"05-x.txt", `{}`, ""},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := newTestNode(t, Options{})
			path := filepath.Join(w.conf, c.file)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			w.start(t)
			later(3 * networkPeriod)
			w.mustBeRight(t)

			_, warnings := w.cluster.written()
			if (warnings == "") != (c.want == "") || !strings.Contains(warnings, c.want) ||
				strings.Count(warnings, "OtherCNIConfiguration") > 1 {
				t.Errorf("%s: warnings %q, want %q", name, warnings, c.want)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != c.text {
				t.Errorf("%s: the file is %s now: %v", name, data, err)
			}
		})
	}
}
