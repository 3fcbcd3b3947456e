package networks

import (
	"os"
	"testing"
)

// TestVXLAN: packets between nodes travel in UDP datagrams between the nodes' own addresses. Each node has a /25.
// Row 1.45.
func TestVXLAN(t *testing.T) {
	f := up(t, "vxlan", "--node-cidr-mask-size", "25").fleet()
	f.checkPaths(promise{mtu: 1450, encap: "vxlan", vni: 4096, port: 4789})
	f.checkLiars("10.244.200.0/25", refused)
	f.checkStatus(2, 0)
	d := pathCheck{f}
	d.checkComputed()
	if os.Getenv("PORTHOLE_NETWORKS") == "long" {
		checkOverlayNodes(f)
		defer d.freeze("lin01/routes", "win01/routes")()
		d.checkFlaws(d.overlayFlaws()...)
	}
}
