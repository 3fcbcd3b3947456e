package flannel

import (
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/capture"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/vxlan"
)

// TestHostGateway: nodes with flanneld in its backend host-gw and with porthole routes reach each other without an
// overlay.
func TestHostGateway(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.echoes()
	c.startAll("host-gateway", vxlan.NetConf{Network: "10.244.0.0/16", Backend: vxlan.Backend{Type: "host-gw"}})
	t.Logf("packets in all directions after %v",
		c.carries(30*time.Second, "packets in all directions", everybody...).Round(10*time.Millisecond))

	// Packets cross the wire as pods send them, and routes carry the mark of who made them.
	wire := capture.Start(t, c.spaces["our1"].Path, "eth0")
	if err := c.asks(2, 0); err != nil {
		t.Error(err)
	}
	wire.Wait(t, "the packet of the pod",
		func(p capture.Packet) bool { return p.Src == addrOf(nodes[2].pod) && p.Dst == addrOf(nodes[0].pod) })
	if got := c.routesTo("our1", "10.244.1.0/24"); len(got) != 1 || got[0] != "10.99.0.11 proto 201" {
		t.Errorf("our1 has %q", got)
	}
	if got := c.routesTo("flan1", "10.244.3.0/24"); len(got) != 1 || got[0] != "10.99.0.13 proto 3" {
		t.Errorf("flan1 has %q", got)
	}

	// What flannel does not put right: a route that leads elsewhere.
	_, dst, _ := net.ParseCIDR("10.244.1.0/24")
	c.on("our1", func() error { return netlink.RouteReplace(&netlink.Route{Dst: dst, Gw: net.IPv4(10, 99, 0, 99)}) })
	wait.True(t, 2*time.Second, "our1's route is right again", func() bool {
		got := c.routesTo("our1", "10.244.1.0/24")
		return len(got) == 1 && got[0] == "10.99.0.11 proto 201"
	})

	if lost := c.keepsPackets(2, 0, func() {
		c.procs["our1"].kill()
		c.ours("our1", "host-gateway")
	}); lost > 0 {
		t.Errorf("%d of 1000 packets were lost while the agent started again", lost)
	}
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), "flan2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"flan1", "our1", "our2"} {
		wait.True(t, 2*time.Second, name+" has no route to the deleted node",
			func() bool { return len(c.routesTo(name, "10.244.2.0/24")) == 0 })
	}
}
