package nodes

import (
	"strings"
	"testing"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
)

// TestJoinNetwork: what the Windows nodes of each network are joined with.
func TestJoinNetwork(t *testing.T) {
	for network, want := range map[string]string{
		"host-gateway": "",
		"tor":          "",
		"vxlan":        "",
		"bgp":          ` --bgp-config=C:\porthole\bgp.yaml`,
		"ovn": " --routes-extra-args=--ovn-remote=tcp:10.99.0.11:6642 " +
			"--routes-extra-args=--ovn-encap-ip=10.98.0.21 --routes-extra-args=--ovn-datapath=netdev " +
			"--routes-extra-args=--ovn-db=tcp:127.0.0.1:6640",
	} {
		c := config.Default()
		c.Supervisor, c.Network = config.SuperviseServices, network
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", network, err)
		}
		n := c.Nodes()[len(c.Nodes())-c.WindowsNodes]
		got := strings.Join(joinNetwork(layout.Layout{Dir: "/d", Bin: "/b"}, c, n), " ")
		if got != "--network "+network+want {
			t.Errorf("%s: %s", network, got)
		}
	}
}
