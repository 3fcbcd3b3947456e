package join

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRoutesSteps: what porthole-routes is started with in each mode, and that its own command read the same before.
func TestRoutesSteps(t *testing.T) {
	const common = `--hostname-override=lin07 --cluster-cidr=10.244.0.0/16 --service-cidr=10.96.0.0/16 --cni-conf-dir=/etc/cni/net.d --state-dir=/var/lib/porthole-node/routes`
	for name, c := range map[string]struct {
		choices Choices
		want    string // behind the flags of all modes
	}{
		"host-gateway": {Choices{Network: "host-gateway"}, ""},
		"an address":   {Choices{Network: "host-gateway", NodeIP: "10.0.0.7"}, " --node-ip=10.0.0.7"},
		"tor":          {Choices{Network: "tor"}, " --mode=tor"},
		"vxlan": {Choices{Network: "vxlan",
			RoutesArgs: []string{"--vxlan-vni=4100"}}, " --mode=vxlan --vxlan-vni=4100"},
		"bgp": {Choices{Network: "bgp", BGPConfig: "FILE"},
			" --mode=bgp --bgp-config=/etc/kubernetes/porthole-bgp.yaml"},
		"ovn": {Choices{Network: "ovn",
			RoutesArgs: []string{"--ovn-remote=tcp:10.0.0.1:6642"}},
			" --mode=ovn --ovn-remote=tcp:10.0.0.1:6642"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bgp.yaml")
			if err := os.WriteFile(file, []byte("asNumber: 64512\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var checked []string
			if c.choices.BGPConfig != "" {
				c.choices.BGPConfig = file
			}
			s := &Setup{Choices: c.choices, Pods: "10.244.0.0/16", Services: "10.96.0.0/16",
				CheckRoutes: func(args []string) error { checked = args; return nil }}
			s.paths()
			s.Name = "lin07"

			list, err := routesSteps(s)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(list[len(list)-1].Content()), "PORTHOLE_ROUTES_ARGS=\""+common+c.want+
				"\"\n"; got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
			words := append([]string{"--kubeconfig=/etc/kubernetes/kubelet.conf"},
				strings.Fields(strings.ReplaceAll(common+c.want, "/etc/kubernetes/porthole-bgp.yaml", file))...)
			if !slices.Equal(checked, words) {
				t.Errorf("checked %q, want %q", checked, words)
			}
			if peers := len(list) == 2 && string(list[0].Content()) == "asNumber: 64512\n" &&
				list[0].Perm == 0o600; peers != (name == "bgp") {
				t.Errorf("%d files", len(list))
			}
		})
	}
}
