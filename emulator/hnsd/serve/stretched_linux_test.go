package serve

import (
	"fmt"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/capture"
	"porthole.dev/porthole/internal/testkit/netspace"
)

const stretchedNetwork = `{"Name":"swarm","Type":"Overlay","Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.247.0.0/16",
 "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}],"Routes":[{"NextHop":"10.247.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],
 "SchemaVersion":{"Major":2,"Minor":0}}`

// stretchedHost is a host with one HNS network, whose subnet other hosts have too.
type stretchedHost struct {
	*server
	addr    string
	space   *netspace.Space
	program *thread
	network uint64
}

// stretchedPod is a pod of such a host.
type stretchedPod struct {
	addr, mac string
	space     *netspace.Space
	on        *stretchedHost
}

// newStretched makes two hosts on one wire.
func newStretched(t *testing.T) (a, b *stretchedHost) {
	t.Helper()
	hosts := []*stretchedHost{{addr: "10.99.7.21", space: netspace.New(t, "a")},
		{addr: "10.99.7.22", space: netspace.New(t, "b")}}
	hosts[0].space.Connect("eth0", hosts[1].space, "eth0")
	for i, h := range hosts {
		h.space.Address("eth0", h.addr+"/24")
		plane, err := dataplane.New(dataplane.Options{Netns: h.space.Path})
		must(t, err)
		t.Cleanup(plane.Close)

		h.server = startServerOn(t, 20348, plane)
		h.s.host.NodeAddr, h.s.host.NodeMAC = h.addr, fmt.Sprintf("00-15-5D-00-00-%02X", 0x21+i)
		h.program = h.connect("swarm.exe", 1)
		h.network = h.program.good(wire.On(hnsd.Network, wire.Create), 0, "", stretchedNetwork).handle
	}
	return hosts[0], hosts[1]
}

// pod makes a pod with an endpoint in its namespace.
func (h *stretchedHost) pod(addr, mac string) stretchedPod {
	h.t.Helper()
	p := stretchedPod{addr: addr, mac: mac, space: netspace.New(h.t, "pod"), on: h}
	var bound struct{ ID string }
	h.control("POST", "/netns", fmt.Sprintf(`{"path": %q}`, p.space.Path), &bound)
	endpoint := h.program.good(wire.On(hnsd.Endpoint, wire.Create), h.network, "", fmt.Sprintf(`{"IpConfigurations":[{"IpAddress":%q,"PrefixLength":16}],"MacAddress":%q,
	 "Routes":[{"NextHop":"10.247.0.1","DestinationPrefix":"0.0.0.0/0"}],"SchemaVersion":{"Major":2,"Minor":0}}`, addr, mac)).handle
	namespace := h.program.good(wire.On(hnsd.Namespace, wire.Open), 0, bound.ID).handle
	h.program.good(wire.On(hnsd.Namespace, wire.Modify), namespace, "",
		fmt.Sprintf(`{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":%q}}`,
			h.program.idOf(hnsd.Endpoint, endpoint)))
	return p
}

// knows makes the remote endpoint of another host's pod, and returns its id.
func (h *stretchedHost) knows(p stretchedPod) string {
	h.t.Helper()
	return h.program.idOf(hnsd.Endpoint, h.program.good(wire.On(hnsd.Endpoint, wire.Create), h.network, "", fmt.Sprintf(`{"IpConfigurations":[{"IpAddress":%q}],"MacAddress":%q,"Flags":1,
	 "Policies":[{"Type":"ProviderAddress","Settings":{"ProviderAddress":%q}}],"SchemaVersion":{"Major":2,"Minor":0}}`, p.addr, p.mac, p.on.addr)).handle)
}

// reaches reports whether a datagram and its answer pass between two pods.
func (p stretchedPod) reaches(to stretchedPod) error {
	return netspace.Exchange(p.on.t, netspace.End{Netns: p.space.Path, Addr: p.addr},
		netspace.End{Netns: to.space.Path, Addr: to.addr}, 1400)
}

// TestStretchedSubnet: calls of HNS on two hosts make one subnet of both. Packets between their pods are VXLAN between
// the hosts, to the MAC address of the pod itself. Without the remote endpoint of a pod, and while it names another
// host, there is no way to it.
func TestStretchedSubnet(t *testing.T) {
	a, b := newStretched(t)
	one, two := a.pod("10.247.1.11", "0E-2A-0A-F7-01-0B"), b.pod("10.247.2.11", "0E-2A-0A-F7-02-0B")
	link := capture.Start(t, b.space.Path, "eth0")
	b.knows(one)
	if err := one.reaches(two); err == nil {
		t.Error("a pod of another host is reached that this host does not know")
	}

	id := a.knows(two)
	for _, way := range [][2]stretchedPod{{one, two}, {two, one}} {
		if err := way[0].reaches(way[1]); err != nil {
			t.Errorf("%s to %s: %v", way[0].addr, way[1].addr, err)
		}
	}
	outer := link.Wait(t, "a packet between the pods", func(p capture.Packet) bool {
		return p.Inner != nil && p.Inner.Dst.String() == two.addr
	})
	if outer.Src.String() != a.addr || outer.Dst.String() != b.addr || outer.VNI != 4096 ||
		outer.Inner.DstMAC.String() != strings.ToLower(strings.ReplaceAll(two.mac, "-", ":")) {
		t.Errorf("on the wire: %s", outer)
	}

	a.program.good(wire.On(hnsd.Endpoint, wire.Delete), 0, id)
	elsewhere := two
	elsewhere.on = &stretchedHost{addr: "10.99.7.99"}
	id = a.knows(elsewhere)
	if err := one.reaches(two); err == nil {
		t.Error("a pod is reached whose remote endpoint names another host")
	}
	a.program.good(wire.On(hnsd.Endpoint, wire.Delete), 0, id)
	a.knows(two)
	if err := one.reaches(two); err != nil {
		t.Errorf("with the right remote endpoint again: %v", err)
	}
	for _, h := range []*stretchedHost{a, b} {
		if drift, err := h.s.Verify(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("%s: drift %v, %v", h.addr, drift, err)
		}
	}
}
