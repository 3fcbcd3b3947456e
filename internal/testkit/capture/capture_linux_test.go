package capture

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/testkit/netspace"
)

// TestVXLAN sends a packet through a VXLAN device of the kernel and sees it outside and inside.
func TestVXLAN(t *testing.T) {
	a, b := netspace.New(t, "a"), netspace.New(t, "b")
	a.Connect("eth0", b, "eth0")
	a.Address("eth0", "10.1.0.1/24", "fd01::1/64")
	b.Address("eth0", "10.1.0.2/24", "fd01::2/64")
	a.Do(func() error {
		return netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx"}, VxlanId: 4096, Port: 4789,
			SrcAddr: net.IPv4(10, 1, 0, 1), Group: net.IPv4(10, 1, 0, 2)})
	})
	a.Address("vx", "10.2.0.1/24")

	wire := Start(t, b.Path, "eth0")
	send := func(to string) {
		a.Do(func() error {
			c, err := net.Dial("udp", to)
			if err == nil {
				_, err = c.Write([]byte("text"))
				c.Close()
			}
			return err
		})
	}
	a.Do(func() error {
		link, err := netlink.LinkByName("vx")
		if err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.IPv4(10, 2, 0, 2),
			State:        netlink.NUD_PERMANENT,
			HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}})
	})

	send("10.2.0.2:7")
	p := wire.Wait(t, "the packet", func(p Packet) bool { return p.Inner != nil && p.Inner.DstPort == 7 })
	if p.Encap != "vxlan" || p.VNI != 4096 || p.Src != netip.MustParseAddr("10.1.0.1") ||
		p.Inner.Dst != netip.MustParseAddr("10.2.0.2") ||
		p.Inner.DstMAC.String() != "02:00:00:00:00:09" || p.Length != p.Inner.Length+50 {
		t.Errorf("seen %s", p)
	}
	send("[fd01::2]:9")
	six := wire.Wait(t, "the packet of IPv6",
		func(p Packet) bool { return p.Dst == netip.MustParseAddr("fd01::2") && p.DstPort == 9 })
	if six.Length != 40+8+4 || six.Protocol != UDP {
		t.Errorf("seen %s", six)
	}
}
