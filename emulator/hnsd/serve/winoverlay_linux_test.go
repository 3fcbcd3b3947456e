package serve

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// The peer of the host in the overlay is the namespace outside, as a Linux node under flannel would be: a device of
// the kernel with the MAC address peerMAC, at the address 10.99.7.1, with a pod at 10.245.5.2.
const (
	peerMAC   = "0e:2a:00:00:05:01"
	peerRoute = `{"Name":"flannel.4096","Type":"Overlay","Flags":8,"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.245.4.0/24",
 "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}],"Routes":[{"NextHop":"10.245.4.1","DestinationPrefix":"0.0.0.0/0"}]}]}],
 "Policies":[{"Type":"HostRoute"},{"Type":"RemoteSubnetRoute","Settings":{"IsolationId":4096,"DistributedRouterMacAddress":"0E-2A-00-00-05-01",
 "ProviderAddress":"10.99.7.1","DestinationPrefix":"10.245.5.0/24"}}],"SchemaVersion":{"Major":2,"Minor":0}}`
	// overlayConfig is what flannel's CNI plugin makes of its delegate on Windows (flannel-io/cni-plugin,
	// flannel_windows.go), with the policies of sig-windows-tools' example. %s is the folder of addresses.
	overlayConfig = `{"cniVersion":"0.3.0","name":"flannel.4096","type":"win-overlay","apiVersion":2,"ipMasq":true,"ipMasqNetwork":"10.245.0.0/16",
 "endpointMacPrefix":"0E-2A","dns":{"Nameservers":["10.96.0.10"],"Search":["svc.cluster.local"]},
 "policies":[{"Name":"EndpointPolicy","Value":{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.245.0.0/16","10.96.0.0/12"]}}},
  {"Name":"EndpointPolicy","Value":{"Type":"SDNROUTE","Settings":{"DestinationPrefix":"10.96.0.0/12","NeedEncap":true}}}],
 "ipam":{"type":"host-local","subnet":"10.245.4.0/24","rangeStart":"10.245.4.3","dataDir":"C:\\var\\lib\\cni\\overlay"}}`
)

// joinOverlay makes the host's overlay network, and outside a node of it.
func (h pluginHost) joinOverlay() {
	h.t.Helper()
	h.createNetwork(peerRoute)
	router := h.routerMAC("flannel.4096")
	must(h.t, platform.InNetns(h.out, func() error {
		mac, err := net.ParseMAC(peerMAC)
		if err != nil {
			return err
		}
		device := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: 4096,
			SrcAddr: net.ParseIP("10.99.7.1").To4(), Port: 4789}
		device.Name, device.MTU, device.HardwareAddr = "flannel.4096", 1450, mac
		if err := netlink.LinkAdd(device); err != nil {
			return err
		}
		link, err := netlink.LinkByName(device.Name)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr("10.245.5.2/32")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}

		_, pods, err := net.ParseCIDR("10.245.4.0/24")
		if err != nil {
			return err
		}
		remote, err := net.ParseMAC(router)
		if err != nil {
			return err
		}
		index := link.Attrs().Index
		for _, n := range []netlink.Neigh{
			{LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: pods.IP, HardwareAddr: remote},
			{LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
				IP: net.ParseIP("10.99.7.21").To4(), HardwareAddr: remote},
		} {
			if err := netlink.NeighSet(&n); err != nil {
				return err
			}
		}
		return netlink.RouteReplace(&netlink.Route{LinkIndex: index, Dst: pods, Gw: pods.IP,
			Flags: int(netlink.FLAG_ONLINK)})
	}))
}

// routerMAC returns the MAC address of the host in an overlay network.
func (h pluginHost) routerMAC(network string) string {
	h.t.Helper()
	var d struct {
		Networks []struct {
			Name     string
			Policies []struct {
				Type     string
				Settings struct{ Address string }
			}
		}
	}
	h.control("GET", "/dump", "", &d)
	for _, n := range d.Networks {
		for _, p := range n.Policies {
			if n.Name == network && p.Type == "DrMacAddress" {
				return strings.ToLower(strings.ReplaceAll(p.Settings.Address, "-", ":"))
			}
		}
	}
	h.t.Fatalf("network %s has no DrMacAddress", network)
	return ""
}

// TestWinOverlay gives one pod its network by our win-overlay.exe and another by upstream's, both on one overlay
// network and with one configuration, that of flannel's delegate. Both reach each other and a pod of another node, and
// the packets are VXLAN.
// Row 1.63.
func TestWinOverlay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startPluginHost(t, 20348)
	t.Run("agent killed", func(t *testing.T) { testKilled(t, h.bridgeHost, "TestVXLAN") })
	h.joinOverlay()
	before := h.counts()
	ours := cni{exe: "win-overlay", config: overlayConfig, pod: h.pod("ours")}
	upstream := cni{exe: `..\opt\cni\bin\win-overlay`, config: overlayConfig, pod: h.pod("upstream"),
		env: []string{`CNI_PATH=C:\opt\cni\bin`}}

	add := func(call cni) string {
		call.command = "ADD"
		var result struct {
			IPs []struct{ Address, Gateway string } `json:"ips"`
			DNS struct{ Nameservers []string }      `json:"dns"`
		}
		must(t, json.Unmarshal([]byte(h.mustRun(call)), &result))
		if len(result.IPs) != 1 || result.IPs[0].Gateway != "10.245.4.1" ||
			!slices.Equal(result.DNS.Nameservers, []string{"10.96.0.10"}) {
			t.Fatalf("%s: result of ADD: %+v", call.exe, result)
		}
		addr, bits, _ := strings.Cut(result.IPs[0].Address, "/")
		if bits != "24" {
			t.Errorf("%s: the pod got %s", call.exe, result.IPs[0].Address)
		}
		ip := net.ParseIP(addr).To4()
		mac := fmt.Sprintf("0e:2a:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])
		must(t, platform.InNetns(call.pod.path, func() error {
			link, err := netlink.LinkByName("eth0")
			if err == nil && link.Attrs().HardwareAddr.String() != mac {
				t.Errorf("%s: the pod has the MAC address %s, want %s", call.exe, link.Attrs().HardwareAddr, mac)
			}
			return err
		}))
		return addr
	}
	first, second := add(ours), add(upstream)
	if first == second {
		t.Fatalf("both pods got %s", first)
	}
	if again := add(ours); again != first {
		t.Errorf("a second ADD answers %s, the first %s", again, first)
	}
	call := ours
	call.command = "STATUS"
	call.config = strings.Replace(overlayConfig, `"0.3.0"`, `"1.1.0"`, 1)
	h.mustRun(call)

	for _, p := range []struct {
		what, path, addr, other string
	}{{"ours", ours.pod.path, first, second}, {"upstream's", upstream.pod.path, second, first}} {
		other := upstream.pod.path
		if p.other == first {
			other = ours.pod.path
		}
		h.talk("pod of "+p.what+" to a pod of another node", p.path, h.out, "10.245.5.2:80", p.addr)
		h.talk("pod of another node to the pod of "+p.what, h.out, p.path, p.addr+":80", "10.245.5.2")
		h.talk("pod of "+p.what+" to the other pod", p.path, other, p.other+":80", p.addr)
		h.talk("pod of "+p.what+" to outside", p.path, h.out, "203.0.113.1:80", "10.99.7.21") // outbound NAT
	}
	h.noDrift()
	testVersions(t, h, ours, func(version string) string {
		return strings.Replace(overlayConfig, `"0.3.0"`, `"`+version+`"`, 1)
	})
	h.overlayGone(before, ours, upstream)
}

// overlayGone deletes the pods, twice, and checks that nothing of them is left.
func (h pluginHost) overlayGone(before string, calls ...cni) {
	h.t.Helper()
	for _, call := range calls {
		call.command = "DEL"
		for range 2 {
			h.mustRun(call)
		}
		h.control("DELETE", "/netns/"+call.pod.id, "", nil)
	}
	// What counts says was there before the pods' namespaces were known.
	if after := h.counts(); after != before {
		h.t.Errorf("after DEL: %s, before ADD: %s", after, before)
	}
	entries, err := os.ReadDir(h.prefix.DriveC() + "/var/lib/cni/overlay/flannel.4096")
	must(h.t, err)
	for _, e := range entries {
		if net.ParseIP(e.Name()) != nil {
			h.t.Errorf("address %s is left", e.Name())
		}
	}
	h.noDrift()
}
