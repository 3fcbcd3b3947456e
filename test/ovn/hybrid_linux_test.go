package ovn

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/vxlan"
)

// The ends of TestHybridOverlay.
const (
	routerOfLinux   = "0a:58:0a:80:00:03" // of n1 in the hybrid overlay
	routerOfWindows = "00-15-5D-AA-00-1E" // of the Windows host, as HNS tells it
	podOfLinux      = "02:00:0a:80:00:05" // MAC address of the pod behind n1
)

// TestHybridOverlay sends packets between a Windows host and a node whose Open vSwitch has the bridge that
// OVN-Kubernetes makes for such hosts: VXLAN with the tunnel's key and destination by flows, and no packet that is not
// for the bridge's own MAC address (ovn-kubernetes go-controller/hybrid-overlay/pkg/controller/ovn_node_linux.go). The
// policies of the host are those that the mode vxlan plans from the annotations of the nodes. OVN-Kubernetes itself,
// which would lead packets from its logical router to that bridge, is not there.
func TestHybridOverlay(t *testing.T) {
	w := faultWorld{newWorld(t)}
	n1 := w.addNode("n1", "10.99.0.11", "10.244.1.0/24")
	w.sync()
	nodes := hybridNodes(t, n1.addr)
	windows := w.windowsHost(nodes)
	linux := w.hybridBridge(n1)
	w.listen(linux, "linux", netip.MustParseAddr("10.128.0.5"))
	w.listen(windows, "windows", netip.MustParseAddr("10.132.1.5"))

	w.reach(windows, netip.MustParseAddr("10.128.0.5"), 8080, "linux")
	w.reach(linux, netip.MustParseAddr("10.132.1.5"), 8080, "windows")
	arrived := regexp.MustCompile(`n_packets=[1-9]\d*, [^\n]*tun_id=0x1001,in_port=\S+,dl_dst=` + routerOfLinux)
	// ovs-vswitchd counts late
	wait.NoError(t, 10*time.Second, "packets with VNI 4097 and the MAC address "+routerOfLinux, func() error {
		if flows := w.ofctl(n1, "dump-flows", "br-ext"); !arrived.MatchString(flows) {
			return errors.New(flows)
		}
		return nil
	})

	w.ofctl(n1, "del-flows", "br-ext", "in_port=ext-vxlan")
	// it stays in the cache of the data path for a moment
	wait.NoError(t, 10*time.Second, "packets to pass by that flow only", func() error {
		if answer, err := send(windows, "udp", "10.128.0.5:8080", 100, time.Second); err == nil {
			return fmt.Errorf("answer %q", answer)
		}
		return nil
	})
}

// hybridNodes are the nodes as the mode sees them, with ranges and addresses by their annotations.
func hybridNodes(t *testing.T, linux netip.Addr) []table.Node {
	t.Helper()
	nodes := []table.Node{
		{Name: "n1", Addr: linux,
			Annotations: map[string]string{"k8s.ovn.org/node-subnets": `{"default":["10.128.0.0/24"]}`,
				"k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac": routerOfLinux}},
		{Name: "win", Addr: netip.MustParseAddr("10.99.0.30"),
			Annotations: map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0/24"}},
	}
	for i := range nodes {
		ranges, err := vxlan.HybridRanges(nodes[i].Annotations)
		if err != nil || len(ranges) != 1 {
			t.Fatalf("ranges of %s: %v, %v", nodes[i].Name, ranges, err)
		}
		nodes[i].PodCIDRs = []netip.Prefix{netip.MustParsePrefix(ranges[0])}
	}
	return nodes
}

// windowsHost makes the emulated Windows host with what the mode plans for it, and returns the namespace of a pod
// there.
func (w faultWorld) windowsHost(nodes []table.Node) *netspace.Space {
	w.t.Helper()
	self := nodes[1]
	network := desired.Network{ID: "11111111-0000-0000-0000-000000000001", Type: "Overlay", Provider: self.Addr,
		RouterMAC: colons(routerOfWindows), HostRoute: true,
		Subnets: []desired.Subnet{{Prefix: self.PodCIDRs[0], Gateway: self.PodCIDRs[0].Addr().Next(),
			VSID: vxlan.HybridVNI}}}
	plan := vxlan.PlanOverlay(vxlan.Options{Node: self.Name, Addr: self.Addr,
		Cluster: netip.MustParsePrefix("10.128.0.0/13"),
		Config:  vxlan.Config{VNI: vxlan.HybridVNI, Port: vxlan.Port, Hybrid: true}}, nodes,
		vxlan.Overlay{Network: hns.Network{RouterMAC: routerOfWindows}})
	told := ""
	for _, op := range plan.Ops {
		switch op.Verb {
		case vxlan.AddPolicy:
			network.RemoteSubnets = append(network.RemoteSubnets,
				desired.RemoteSubnet{Prefix: op.Remote.Prefix, VSID: op.Remote.VSID, Provider: op.Remote.Provider,
					MAC: colons(op.Remote.MAC)})
		case vxlan.Tell:
			told = op.Annotations["k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"]
		}
	}
	if told != colons(routerOfWindows) || len(network.RemoteSubnets) != 1 {
		w.t.Fatalf("the plan is %v", plan.Ops)
	}

	space, pod := w.host("win", self.Addr), netspace.New(w.t, "winpod")
	plane, err := dataplane.New(dataplane.Options{Netns: space.Path})
	w.must(err)
	w.t.Cleanup(plane.Close)
	state := desired.State{Networks: []desired.Network{network},
		Namespaces: []desired.Namespace{{ID: "host", Host: true}, {ID: "pod", Path: pod.Path}},
		Endpoints: []desired.Endpoint{{ID: "e", Network: network.ID, Namespace: "pod",
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.132.1.5/24")},
			MAC:   "00:15:5d:00:01:05", Gateway: network.Subnets[0].Gateway}}}
	refused, err := plane.Apply(w.t.Context(), state)
	w.must(err)
	if len(refused) > 0 {
		w.t.Fatalf("refused: %v", refused)
	}
	return pod
}

// colons writes a MAC address of HNS as Linux does.
func colons(mac string) string { return strings.ToLower(strings.ReplaceAll(mac, "-", ":")) }

// hybridBridge makes the bridge of OVN-Kubernetes on a node, and returns the namespace of a pod behind it.
func (w faultWorld) hybridBridge(n *node) *netspace.Space {
	w.t.Helper()
	pod := netspace.New(w.t, "linuxpod")
	pod.Connect("eth0", n.space, "ext")
	pod.Address("eth0", "10.128.0.5/24")
	pod.Route("0.0.0.0/0", "10.128.0.3") // the third address is that of the hybrid overlay
	inPod := &node{space: pod}
	w.in(inPod, "ip", "link", "set", "eth0", "mtu", "1400", "address", podOfLinux)
	w.in(inPod, "ip", "neigh", "replace", "10.128.0.3", "lladdr", routerOfLinux, "dev", "eth0")
	pod.Do(func() error { return platform.StopChecksumOffload("eth0") }) // the other end is a program
	w.vsctl(n, "add-br", "br-ext", "--", "set", "bridge", "br-ext", "datapath_type=netdev", "fail_mode=secure", "--",
		"add-port", "br-ext", "ext", "--",
		"add-port", "br-ext", "ext-vxlan", "--", "set", "interface", "ext-vxlan", "type=vxlan",
		"options:remote_ip=flow", "options:key=flow", "options:dst_port=4789")
	w.awaitSocket(w.management(n, "br-ext"))
	wait.True(w.t, 10*time.Second, "br-ext to have its ports",
		func() bool { return strings.Count(w.ofctl(n, "show", "br-ext"), "ext") >= 3 })

	for _, flow := range []string{
		fmt.Sprintf(
			"priority=100,in_port=ext-vxlan,tun_id=%d,dl_dst=%s,ip,nw_dst=10.128.0.5,actions=set_field:%s->eth_src,set_field:%s->eth_dst,output:ext",
			vxlan.HybridVNI, routerOfLinux, routerOfLinux, podOfLinux),
		fmt.Sprintf(
			"priority=100,in_port=ext,ip,nw_dst=10.132.1.0/24,actions=set_field:%d->tun_id,set_field:10.99.0.30->tun_dst,set_field:%s->eth_dst,output:ext-vxlan",
			vxlan.HybridVNI, colons(routerOfWindows)),
	} {
		w.ofctl(n, "add-flow", "br-ext", flow)
	}
	return pod
}

// ofctl asks a bridge of a node. verb and what follows the bridge are as of ovs-ofctl.
func (w faultWorld) ofctl(n *node, verb, bridge string, args ...string) string {
	w.t.Helper()
	return w.in(n, "ovs-ofctl", append([]string{verb, "unix:" + w.management(n, bridge)}, args...)...)
}

// management is the socket at which ovs-vswitchd takes OpenFlow for a bridge.
func (w faultWorld) management(n *node, bridge string) string {
	return filepath.Join(filepath.Dir(n.host.Socket()), bridge+".mgmt")
}
