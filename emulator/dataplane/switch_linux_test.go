package dataplane

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
)

const transparentID, natID = "33333333-0000-0000-0000-00000000000a", "33333333-0000-0000-0000-00000000000b"

// segmentPod adds an endpoint of the node's Transparent network with an address of the segment of nodes.
func (n *node) segmentPod(octet int) string {
	name := n.pod(octet, func(e *desired.Endpoint) {
		e.Network, e.Gateway = transparentID, netip.MustParseAddr("10.99.0.1")
		e.Addrs = prefixList(fmt.Sprintf("10.99.0.%d/24", octet))
		e.OutboundNAT, e.SDNRoutes = nil, nil
	})
	return name
}

// Endpoints of Transparent networks are in the nodes' segment: the wire has their own MACs and addresses, nothing is
// translated and no route leads to them. The host keeps its addresses, routes and connections.
// Row 1.36.
func TestPacketsTransparent(t *testing.T) {
	w := newWorld(t)
	w.serve("a", "node", 80)
	w.serve("out", "out", 80)
	w.in("a", func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: platform.IPNet(netip.MustParsePrefix("192.168.7.0/24")),
			Gw: net.ParseIP("10.99.0.22"), Priority: 77})
	})
	kept, err := w.dial("out", "tcp", "10.99.0.21:80")
	must(t, err)
	defer kept.Close()
	before := w.hostStack("a")

	for _, n := range []*node{w.a, w.b} {
		n.desired.Networks = append(n.desired.Networks, desired.Network{ID: transparentID, Type: "Transparent",
			Subnets: []desired.Subnet{{Prefix: netip.MustParsePrefix("10.99.0.0/24"),
				Gateway: netip.MustParseAddr("10.99.0.1")}}})
	}
	p1, p2, p3 := w.a.segmentPod(101), w.a.segmentPod(102), w.b.segmentPod(103)
	bridged := w.a.pod(11)
	w.a.apply()
	w.b.apply()
	if after := w.hostStack("a"); after != before {
		t.Errorf("the host's addresses and routes became\n%swere\n%s", after, before)
	}
	if answer, err := ask(kept); err != nil || answer != "node 10.99.0.1" {
		t.Errorf("a connection from before: %q, %v", answer, err)
	}

	w.serve(p1, "p1", 80)
	w.serve(p3, "p3", 80)
	w.serve(bridged, "bridged", 80)
	w.expect(p2, "10.99.0.101:80", "p1 10.99.0.102")
	w.expect(p1, "10.99.0.103:80", "p3 10.99.0.101")
	w.expect("out", "10.99.0.101:80", "p1 10.99.0.1")
	w.expect("a", "10.99.0.101:80", "p1 10.99.0.21")
	w.expect("b", "10.99.0.101:80", "p1 10.99.0.22")
	w.expect(p1, "10.99.0.21:80", "node 10.99.0.101")
	w.expect(p1, outside+":80", "out 10.99.0.101")
	w.expect(bridged, outside+":80", "out 10.99.0.21") // beside an L2Bridge network
	w.expect(p1, "10.244.1.11:80", "bridged 10.99.0.101")
	if mac := w.neighbour("out", "10.99.0.101"); mac != "00:15:5d:00:01:65" {
		t.Errorf("the segment knows the endpoint by MAC %s", mac)
	}

	// A daemon that starts again finds everything right.
	again, err := New(Options{Netns: w.path("a")})
	must(t, err)
	defer again.Close()
	drift, err := again.Verify(w.ctx, w.a.desired)
	must(t, err)
	if len(drift) > 0 {
		t.Errorf("after a restart: %v", drift)
	}

	w.a.desired.Networks = w.a.desired.Networks[:1]
	w.a.desired.Endpoints = w.a.desired.Endpoints[2:]
	w.a.apply()
	if after := w.hostStack("a"); after != before {
		t.Errorf("once the network is gone the host's addresses and routes are\n%swere\n%s", after, before)
	}
	if answer, err := ask(kept); err != nil || answer != "node 10.99.0.1" {
		t.Errorf("a connection from before, at the end: %q, %v", answer, err)
	}
	w.expect(bridged, outside+":80", "out 10.99.0.21")
}

// A switch that a killed daemon left half made is finished by the next, from every step.
func TestSwitchAfterKill(t *testing.T) {
	w := newWorld(t)
	w.a.desired.Networks = []desired.Network{{ID: transparentID, Type: "Transparent"}}
	w.serve("out", "out", 80)
	before := w.hostStack("a")
	for i, script := range [][]string{
		{"link add hnsteth0 type bridge"},
		{"link add hnsteth0 type bridge", "link set hnsteth0 up", "addr add 10.99.0.21/24 dev hnsteth0",
			"link set eth0 master hnsteth0"},
		{"link add hnsteth0 type bridge", "link set hnsteth0 up", "addr add 10.99.0.21/24 dev hnsteth0",
			"link set eth0 master hnsteth0", "link set eth0 name hnsueth0"},
		{"link add hnsteth0 type bridge", "link set hnsteth0 up", "addr add 10.99.0.21/24 dev hnsteth0",
			"link set eth0 master hnsteth0", "link set eth0 name hnsueth0",
			"link set hnsteth0 name eth0"},
	} {
		w.in("a", func() error {
			for _, line := range script {
				if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
					return fmt.Errorf("%s: %w: %s", line, err, out)
				}
			}
			return nil
		})

		w.a.dp.known = false
		w.a.carry()
		if after := w.hostStack("a"); after != before {
			t.Errorf("after step %d the host's addresses and routes are\n%swere\n%s", i, after, before)
		}
		w.expect("a", outside+":80", "out 10.99.0.21")
		kept := w.a.desired.Networks
		w.a.desired.Networks = nil
		w.a.carry()
		w.a.desired.Networks = kept
	}
}

// In a NAT network endpoints have private addresses: what leaves has the host's, and what comes needs a port mapping.
func TestPacketsNAT(t *testing.T) {
	w := newWorld(t)
	w.a.desired.Networks = append(w.a.desired.Networks, desired.Network{ID: natID, Type: "NAT",
		Subnets: []desired.Subnet{{Prefix: netip.MustParsePrefix("172.28.16.0/20"),
			Gateway: netip.MustParseAddr("172.28.16.1")}}})
	private := func(octet int, mappings ...desired.PortMapping) string {
		return w.a.pod(octet, func(e *desired.Endpoint) {
			e.Network, e.Gateway = natID, netip.MustParseAddr("172.28.16.1")
			e.Addrs = prefixList(fmt.Sprintf("172.28.16.%d/20", octet))
			e.OutboundNAT, e.SDNRoutes, e.PortMappings = nil, nil, mappings
		})
	}
	n1 := private(11, desired.PortMapping{Protocol: 6, ExternalPort: 8080, InternalPort: 80},
		desired.PortMapping{Protocol: 17, ExternalPort: 8080, InternalPort: 80})
	n2, bridged := private(12), w.a.pod(13)
	w.a.carry() // NAT needs no forwarding of the host's adapters
	w.serve(n1, "n1", 80)
	w.serve("out", "out", 80)
	w.serve("a", "node", 81)
	w.expect(n1, outside+":80", "out 10.99.0.21")
	w.expect(n2, "10.99.0.1:80", "out 10.99.0.21")
	w.expect(n2, "172.28.16.11:80", "n1 172.28.16.12")
	w.expect("a", "172.28.16.11:80", "n1 172.28.16.1")
	w.expect(n1, "172.28.16.1:81", "node 172.28.16.11")
	w.expect("out", "10.99.0.21:8080", "n1 10.99.0.1")
	w.expect("b", "10.99.0.21:8080", "n1 10.99.0.22")

	w.spaces["out"].Route("172.28.16.0/20", "10.99.0.21")
	w.a.forward(true)
	w.expect("out", "172.28.16.11:80", "timeout") // nothing comes in without a mapping
	w.expect(bridged, "172.28.16.11:80", "timeout")
}

// hostStack prints the addresses and routes of a host by names of links.
func (w *world) hostStack(name string) string {
	var b strings.Builder
	w.in(name, func() error {
		addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if a.Label != "lo" && !strings.HasPrefix(a.Label, "hnsb") {
				fmt.Fprintf(&b, "%s on %s\n", a.IPNet, a.Label)
			}
		}

		links := map[int]string{}
		list, err := netlink.LinkList()
		for _, l := range list {
			links[l.Attrs().Index] = l.Attrs().Name
		}
		if err != nil {
			return err
		}
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range routes {
			if r.Table == unix.RT_TABLE_MAIN && !strings.HasPrefix(links[r.LinkIndex], "hnsb") {
				fmt.Fprintf(&b, "%s via %s on %s metric %d\n", r.Dst, r.Gw, links[r.LinkIndex], r.Priority)
			}
		}
		return err
	})
	return b.String()
}

// neighbour returns the MAC that a host knows for an address.
func (w *world) neighbour(name, addr string) (mac string) {
	must(w.t, platform.InNetns(w.path(name), func() error {
		list, err := netlink.NeighList(0, netlink.FAMILY_V4)
		for _, n := range list {
			if n.IP.String() == addr {
				mac = n.HardwareAddr.String()
			}
		}
		return err
	}))
	return mac
}
