package networks

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// checkOverlayNodes adds a node to the overlay, changes it and removes it, and looks at what the others have of it:
// policies of HNS on the Windows nodes, and route, neighbour and forwarding entry on the Linux node. Packets pass in
// both directions.
func checkOverlayNodes(f *fleet) {
	f.t.Helper()
	g := &overlayGhost{f.newGhost()}
	g.device()
	first, second := g.pod("10.244.77.7"), g.pod("10.244.78.7")

	g.joins("10.244.77.0/24", g.addr)
	g.overlayLeads("a node is added", "10.244.77.0/24", g.addr)
	f.reaches("a node is added", first)

	moved := netip.MustParseAddr("10.99.0.62")
	g.movesTo(moved)
	g.announces(moved)
	g.overlayLeads("its address changes", "10.244.77.0/24", moved)
	g.overlayForgets("its address changes", g.addr.String())
	f.reaches("its address changes", first)

	f.deleteNode("ghost")
	g.joins("10.244.78.0/24", moved)
	g.overlayForgets("its pod range changes", "10.244.77.0")
	g.overlayLeads("its pod range changes", "10.244.78.0/24", moved)
	f.reaches("its pod range changes", second)

	f.node("twin", "10.244.78.0/25", "10.99.0.63")
	// The route goes. The neighbour with the first address of the range stays: it may be twin's, which has not
	// announced any yet.
	g.overlayForgets("two nodes have one range", "10.244.78.0/24")
	f.warned("RouteRefused", nodeNames, "10.244.78.0/24 of node ghost overlaps 10.244.78.0/25 of node twin")
	f.deleteNode("twin")
	g.overlayLeads("one of the two is removed", "10.244.78.0/24", moved)
	f.reaches("one of the two is removed", second)

	f.deleteNode("ghost")
	g.overlayForgets("a node is removed", "10.244.78.0")
	g.overlayForgets("a node is removed", moved.String())
	for _, n := range nodeNames {
		f.reaches("a node is removed", f.addr["b-"+n])
	}
}

// overlayGhost is a ghost that the kernel's VXLAN connects, by entries made by hand.
type overlayGhost struct{ *ghost }

// overlayMAC is that of the ghost in the overlay.
var overlayMAC = net.HardwareAddr{0x0e, 0x2a, 0, 0, 0, 0x61}

func (g *overlayGhost) run(name string, args ...string) {
	g.t.Helper()
	if _, err := commandIn("porthole-ghost", shortly, name, args...); err != nil {
		g.t.Fatal(err)
	}
}

// device makes the ghost's end of the overlay, with entries for all nodes as they announce themselves.
func (g *overlayGhost) device() {
	g.t.Helper()
	g.run("ip", "link", "add", "vx", "address", overlayMAC.String(), "mtu", "1450", "type", "vxlan", "id", "4096",
		"dev", "eth0", "dstport", "4789", "nolearning")
	g.run("ip", "link", "set", "vx", "up")
	for _, name := range nodeNames {
		var n v1.Node
		if err := get(&n, "node", name); err != nil {
			g.t.Fatal(err)
		}
		var data struct{ VtepMAC string }
		if err := json.Unmarshal([]byte(n.Annotations["flannel.alpha.coreos.com/backend-data"]), &data); err != nil {
			g.t.Fatal(err)
		}
		mac, err := net.ParseMAC(data.VtepMAC)
		if err != nil {
			g.t.Fatal(err)
		}
		far := netip.MustParsePrefix(n.Spec.PodCIDR).Addr().String()
		g.run("ip", "neigh", "replace", far, "lladdr", mac.String(), "dev", "vx", "nud", "permanent")
		g.run("bridge", "fdb", "replace", mac.String(), "dev", "vx", "dst", g.nodes[name].String(), "self", "permanent")
		g.run("ip", "route", "replace", n.Spec.PodCIDR, "via", far, "dev", "vx", "onlink")
	}
}

// joins makes the Node, which announces itself as flannel does.
func (g *overlayGhost) joins(podCIDR string, addr netip.Addr) {
	g.t.Helper()
	g.node("ghost", podCIDR, addr.String())
	g.announces(addr)
}

func (g *overlayGhost) announces(addr netip.Addr) {
	g.t.Helper()
	const prefix = "flannel.alpha.coreos.com/"
	_, err := kubectl("annotate", "--overwrite", "node", "ghost", prefix+"backend-type=vxlan",
		prefix+"kube-subnet-manager=true", prefix+"public-ip="+addr.String(),
		prefix+fmt.Sprintf(`backend-data={"VNI":4096,"VtepMAC":"%s"}`, overlayMAC))
	if err != nil {
		g.t.Fatal(err)
	}
}

// movesTo gives the ghost another address on the segment, from which it sends.
func (g *overlayGhost) movesTo(addr netip.Addr) {
	g.t.Helper()
	g.run("sysctl", "-qw", "net.ipv4.conf.eth0.promote_secondaries=1")
	g.run("ip", "address", "add", addr.String()+"/24", "dev", "eth0")
	g.run("ip", "address", "del", g.addr.String()+"/24", "dev", "eth0")
	g.address("ghost", addr.String())
}

// overlayOf returns what a node has of its peers, as text.
func (g *overlayGhost) overlayOf(node string) (string, error) {
	if node != "lin01" {
		n, err := g.overlay(node)
		return strings.Join(n.routes(), "\n"), err
	}
	return commandIn("porthole-lin01", shortly, "sh", "-c",
		"ip route show dev flannel.4096; ip neigh show dev flannel.4096 nud permanent; bridge fdb show dev flannel.4096")
}

// overlayLeads waits until every node sends packets for a range to an address.
func (g *overlayGhost) overlayLeads(what, dst string, addr netip.Addr) {
	g.t.Helper()
	g.overlayIs(what, func(text string) bool {
		return strings.Contains(text, dst) && strings.Contains(text, addr.String())
	})
}

// overlayForgets waits until no node has an entry with a text.
func (g *overlayGhost) overlayForgets(what, text string) {
	g.t.Helper()
	g.overlayIs(what+", "+text+" is forgotten", func(has string) bool { return !strings.Contains(has, text) })
}

func (g *overlayGhost) overlayIs(what string, right func(string) bool) {
	g.t.Helper()
	started := time.Now()
	for _, n := range nodeNames {
		wait.NoError(g.t, soon, what+" on "+n, func() error {
			text, err := g.overlayOf(n)
			if err == nil && !right(text) {
				err = fmt.Errorf("%s has\n%s", n, text)
			}
			return err
		})
	}
	g.t.Logf("%s: on all nodes after %v", what, time.Since(started).Round(time.Millisecond))
}
