package networks

import "testing"

// TestVXLAN: packets between nodes travel in UDP datagrams between the nodes' own addresses. Each node has a /25.
func TestVXLAN(t *testing.T) {
	f := up(t, "vxlan", "--node-cidr-mask-size", "25").fleet()
	f.checkPaths(promise{mtu: 1450, encap: "vxlan", vni: 4096, port: 4789})
}
