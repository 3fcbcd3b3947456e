package join

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/step"
)

// TestRoutesSteps: what porthole-routes is started with in each mode, and that its own command read the same before.
func TestRoutesSteps(t *testing.T) {
	const common = `--hostname-override=lin07 --cluster-cidr=10.244.0.0/16 --service-cidr=10.96.0.0/16 --cni-conf-dir=/etc/cni/net.d --state-dir=/var/lib/porthole-node/routes`
	for name, c := range map[string]struct {
		o    Options
		want string // behind the flags of all modes
	}{
		"host-gateway": {Options{Network: "host-gateway"}, ""},
		"an address":   {Options{Network: "host-gateway", NodeIP: "10.0.0.7"}, " --node-ip=10.0.0.7"},
		"tor":          {Options{Network: "tor"}, " --mode=tor"},
		"vxlan": {Options{Network: "vxlan",
			RoutesOptions: RoutesOptions{RoutesArgs: []string{"--vxlan-vni=4100"}}}, " --mode=vxlan --vxlan-vni=4100"},
		"bgp": {Options{Network: "bgp", RoutesOptions: RoutesOptions{BGPConfig: "FILE"}},
			" --mode=bgp --bgp-config=/etc/kubernetes/porthole-bgp.yaml"},
		"ovn": {Options{Network: "ovn",
			RoutesOptions: RoutesOptions{RoutesArgs: []string{"--ovn-remote=tcp:10.0.0.1:6642"}}},
			" --mode=ovn --ovn-remote=tcp:10.0.0.1:6642"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bgp.yaml")
			if err := os.WriteFile(file, []byte("asNumber: 64512\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var checked []string
			c.o.CheckRoutes = func(args []string) error { checked = args; return nil }
			if c.o.BGPConfig != "" {
				c.o.BGPConfig = file
			}
			journal := step.NewJournal("lin07", "")
			s := &Setup{Options: c.o, Journal: &journal}
			paths(s)
			s.Name, s.IP, s.Settings = "lin07", c.o.NodeIP, &credential.Settings{PodSubnet: "10.244.0.0/16",
				ServiceSubnet: "10.96.0.0/16"}

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
