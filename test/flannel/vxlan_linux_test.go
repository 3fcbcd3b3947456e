package flannel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/testkit/capture"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/vxlan"
)

// TestVXLAN: nodes with flanneld and with porthole routes are one overlay.
// Row 1.72.
func TestVXLAN(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.echoes()
	c.startAll("vxlan", vxlan.Default.NetConf("10.244.0.0/16"))
	t.Logf("packets in all directions after %v",
		c.carries(30*time.Second, "packets in all directions", everybody...).Round(10*time.Millisecond))

	for _, step := range []struct {
		name string
		do   func()
	}{
		{"frames on the wire", c.frames},
		{"a node is deleted and comes back", c.deleted},
		{"our device gets another MAC address", func() { c.otherMAC("our1") }},
		{"flannel's device gets another MAC address", func() { c.otherMAC("flan1") }},
		{"everything is deleted behind our back", c.allDeleted},
		{"the agent is killed and starts again", c.restarts},
	} {
		t.Run(step.name, func(t *testing.T) {
			defer func() { c.T = c.all }()
			c.T = t
			step.do()
		})
	}
}

// mac returns the MAC address that a node announces.
func (c *cluster) mac(name string) string {
	c.Helper()
	var data struct{ VtepMAC string }
	if err := json.Unmarshal([]byte(c.node(name).Annotations[vxlan.AnnotationBackendData]), &data); err != nil {
		c.Fatalf("%s announces %v: %v", name, c.node(name).Annotations, err)
	}
	return data.VtepMAC
}

// frames looks at what the nodes send each other: VNI, port, both addresses, and the MAC addresses inside.
func (c *cluster) frames() {
	for from, a := range nodes {
		wire := capture.Start(c.T, c.spaces[a.name].Path, "eth0")
		for to, b := range nodes {
			if from == to {
				continue
			}
			if err := c.asks(from, to); err != nil {
				c.Error(err)
			}
			p := wire.Wait(c.T, a.name+" to "+b.name, func(p capture.Packet) bool {
				return p.Inner != nil && p.Src == addrOf(a.addr) && p.Inner.Dst == addrOf(b.pod)
			})
			if p.Encap != "vxlan" || p.VNI != 4096 || p.DstPort != 4789 || p.Dst != addrOf(b.addr) ||
				p.Inner.SrcMAC.String() != c.mac(a.name) ||
				p.Inner.DstMAC.String() != c.mac(b.name) || p.Length != p.Inner.Length+vxlan.Overhead {
				c.Errorf("%s to %s: %s", a.name, b.name, p)
			}
		}
	}
}

// entries returns what a host's device has for nodes.
func (c *cluster) entries(name string) (list []string) {
	c.Helper()
	c.on(name, func() error {
		dev, err := netlink.LinkByName("flannel.4096")
		if err != nil {
			return nil // gone for a moment
		}

		for _, family := range []int{unix.AF_INET, unix.AF_BRIDGE} {
			found, err := netlink.NeighList(dev.Attrs().Index, family)
			if err != nil {
				return err
			}
			for _, n := range found {
				if n.State&unix.NUD_PERMANENT != 0 {
					list = append(list, fmt.Sprintf("%s at %s", n.IP, n.HardwareAddr))
				}
			}
		}
		routes, err := netlink.RouteList(dev, netlink.FAMILY_V4)
		for _, r := range routes {
			list = append(list, fmt.Sprintf("route %s via %s", r.Dst, r.Gw))
		}
		return err
	})
	slices.Sort(list)
	return list
}

func (c *cluster) deleted() {
	before := c.entries("our1")
	if len(before) != 9 {
		c.Fatalf("our1 has %q for three nodes", before)
	}
	c.procs["our2"].kill()
	if err := c.client.CoreV1().Nodes().Delete(c.Context(), "our2", metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	wait.True(c.T, 2*time.Second, "our1 has nothing of the deleted node",
		func() bool { return len(c.entries("our1")) == 6 })
	wait.True(c.T, 2*time.Second, "flan1 has no route to it",
		func() bool { return len(c.routesTo("flan1", "10.244.4.0/24")) == 0 })

	c.makeNode(3)
	c.ours("our2", "vxlan")
	c.carries(10*time.Second, "packets after the node came back", everybody...)
	if after := c.entries("our1"); !slices.Equal(after, before) {
		c.Errorf("our1 has %q, had %q", after, before)
	}
}

// otherMAC gives a node's device another MAC address. Our agent announces it by itself.
func (c *cluster) otherMAC(name string) {
	old, mac := c.mac(name), net.HardwareAddr{2, 0xcc, 0, 0, 0, name[0]}
	if strings.HasPrefix(name, "flan") {
		c.flannelMAC(name, mac)
	} else {
		c.on(name, func() error {
			dev, err := netlink.LinkByName("flannel.4096")
			if err != nil {
				return err
			}
			return netlink.LinkSetHardwareAddr(dev, mac)
		})
	}

	c.Logf("packets after %v",
		c.carries(5*time.Second, "packets to the new MAC address", everybody...).Round(time.Millisecond))
	if c.mac(name) != mac.String() {
		c.Errorf("%s announces %s, want %s", name, c.mac(name), mac)
	}
	wait.True(c.T, 2*time.Second, "our2 keeps nothing of the old one",
		func() bool { return !strings.Contains(strings.Join(c.entries("our2"), "\n"), old) })
}

// flannelMAC starts flanneld again on a node that says which MAC address its new device gets. When that of a device in
// use changes, the kernel deletes its neighbours, and flanneld does not put them back.
func (c *cluster) flannelMAC(name string, mac net.HardwareAddr) {
	c.Helper()
	c.procs[name].kill()
	c.on(name, func() error {
		dev, err := netlink.LinkByName("flannel.4096")
		if err != nil {
			return err
		}
		return netlink.LinkDel(dev)
	})

	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		vxlan.AnnotationBackendData: fmt.Sprintf(`{"VNI":4096,"VtepMAC":%q}`, mac)}}})
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.client.CoreV1().Nodes().
		Patch(c.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
	c.flanneld(name, vxlan.Default.NetConf("10.244.0.0/16"))
}

func (c *cluster) allDeleted() {
	before := c.entries("our1")
	c.on("our1", func() error {
		dev, err := netlink.LinkByName("flannel.4096")
		if err != nil {
			return err
		}
		for _, family := range []int{unix.AF_INET, unix.AF_BRIDGE} {
			found, err := netlink.NeighList(dev.Attrs().Index, family)
			if err != nil {
				return err
			}
			for i := range found {
				_ = netlink.NeighDel(&found[i]) // the agent may have been faster
			}
		}
		routes, err := netlink.RouteList(dev, netlink.FAMILY_V4)
		for i := range routes {
			_ = netlink.RouteDel(&routes[i])
		}
		return err
	})
	wait.True(c.T, 2*time.Second, "our1 has all entries again",
		func() bool { return slices.Equal(c.entries("our1"), before) })

	c.on("our1", func() error {
		dev, err := netlink.LinkByName("flannel.4096")
		if err != nil {
			return err
		}
		return netlink.LinkDel(dev)
	})
	wait.True(c.T, 2*time.Second, "our1 has its device again",
		func() bool { return slices.Equal(c.entries("our1"), before) })
	c.carries(2*time.Second, "packets after everything was deleted", everybody...)
}

// restarts kills the agent and starts it again: it writes neither to the host nor to the API server, and no packet is
// lost.
func (c *cluster) restarts() {
	version := c.node("our1").ResourceVersion
	changes := make(chan netlink.NeighUpdate, 100)
	routes := make(chan netlink.RouteUpdate, 100)
	done := make(chan struct{})
	defer close(done)
	c.on("our1", func() error {
		if err := netlink.NeighSubscribe(changes, done); err != nil {
			return err
		}
		return netlink.RouteSubscribe(routes, done)
	})

	lost := c.keepsPackets(2, 0, func() {
		c.procs["our1"].kill()
		c.ours("our1", "vxlan")
	})
	c.complete("our1")
	if lost > 0 {
		c.Errorf("%d of 1000 packets were lost", lost)
	}
	if now := c.node("our1").ResourceVersion; now != version {
		c.Errorf("the node was written: version %s, then %s", version, now)
	}
	c.onlyMarks(changes, routes)
}

// onlyMarks writes an entry and a route of its own on our1, waits until both are among the changes, and fails for each
// one before them that somebody else wrote.
func (c *cluster) onlyMarks(changes <-chan netlink.NeighUpdate, routes <-chan netlink.RouteUpdate) {
	c.Helper()
	neighbour, dst := net.IPv4(10, 99, 0, 200), &net.IPNet{IP: net.IPv4(192, 0, 2, 0).To4(), Mask: net.CIDRMask(24, 32)}
	c.on("our1", func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		index := eth0.Attrs().Index
		return errors.Join(
			netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: neighbour,
				HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}),
			netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: dst, Gw: net.IPv4(10, 99, 0, 10)}))
	})

	limit := time.After(5 * time.Second)
	for entry, route := false, false; !entry || !route; {
		select {
		case n := <-changes:
			if n.IP.Equal(neighbour) {
				entry = true
			} else if n.State&unix.NUD_PERMANENT != 0 {
				c.Errorf("an entry was written: %+v", n)
			}
		case r := <-routes:
			if r.Dst != nil && r.Dst.String() == dst.String() {
				route = true
			} else if r.Protocol != unix.RTPROT_KERNEL { // the kernel's own: an address of IPv6 that just became usable
				c.Errorf("a route was written: %s", r.Route)
			}
		case <-limit:
			c.Fatalf("the test's own entry was seen: %t, its own route: %t", entry, route)
		}
	}
}
