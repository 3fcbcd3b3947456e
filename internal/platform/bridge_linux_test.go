package platform

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
)

// A bridge keeps its hardware address when a port with a lower one joins, and when CreateBridge is called again.
func TestBridgeKeepsItsAddress(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	name := fmt.Sprintf("platform-bridge-%d", os.Getpid())
	if err := CreateNetns(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := DeleteNetns(name); err != nil {
			t.Error(err)
		}
	})

	err := InNetns(NetnsPath(name), func() error {
		if err := CreateBridge("sw0"); err != nil {
			return err
		}
		bridge, err := netlink.LinkByName("sw0")
		if err != nil {
			return err
		}
		port := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
		port.Name, port.MasterIndex, port.HardwareAddr = "low", bridge.Attrs().Index, net.HardwareAddr{2, 0, 0, 0, 0, 1}
		if err := netlink.LinkAdd(port); err != nil {
			return err
		}
		if err := CreateBridge("sw0"); err != nil {
			return err
		}
		after, err := netlink.LinkByName("sw0")
		if err != nil {
			return err
		}
		if was, is := bridge.Attrs().HardwareAddr.String(), after.Attrs().HardwareAddr.String(); was != is {
			t.Errorf("the bridge's hardware address was %s, is %s", was, is)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
