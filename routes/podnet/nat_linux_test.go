package podnet

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/nftables"

	"porthole.dev/porthole/internal/testkit/netspace"
)

// TestOutboundNAT sends packets of a pod through a node: what goes outside has the node's address, what goes to an
// exception the pod's. A second Ensure changes nothing, one for other exceptions replaces the rule.
func TestOutboundNAT(t *testing.T) {
	pod, node, out := netspace.New(t, "pod"), netspace.New(t, "node"), netspace.New(t, "out")
	pod.Connect("eth0", node, "pods")
	pod.Address("eth0", "10.244.1.7/24")
	node.Address("pods", "10.244.1.1/24")
	pod.Route("0.0.0.0/0", "10.244.1.1")
	node.Connect("eth0", out, "nodes")
	node.Address("eth0", "10.99.0.11/24")
	out.Address("nodes", "10.99.0.1/24", "203.0.113.1/32")
	node.Route("0.0.0.0/0", "10.99.0.1")
	out.Route("10.244.1.0/24", "10.99.0.11")
	node.Forward()

	prefix := netip.MustParsePrefix
	o := Options{PodCIDR: prefix("10.244.1.0/24"), Cluster: prefix("10.244.0.0/16"), Services: prefix("10.96.0.0/16"),
		Node: netip.MustParseAddr("10.99.0.11"), Underlay: []netip.Prefix{prefix("10.99.0.0/24")}}
	ensure := func(changes bool) {
		t.Helper()
		node.Do(func() error {
			changed, err := NAT{}.Ensure(o)
			if err == nil && changed != changes {
				t.Errorf("changed is %v, want %v", changed, changes)
			}
			return err
		})
	}

	ensure(true)
	ensure(false)
	wantSource(t, pod, out, "203.0.113.1", "10.99.0.11")
	wantSource(t, pod, out, "10.99.0.1", "10.244.1.7")

	o.Underlay = append(o.Underlay, prefix("203.0.113.0/24"))
	ensure(true)
	ensure(false)
	wantSource(t, pod, out, "203.0.113.1", "10.244.1.7")
	node.Do(func() error {
		kernel, err := nftables.New()
		if err != nil {
			return err
		}
		table := &nftables.Table{Name: NATTable, Family: nftables.TableFamilyIPv4}
		rules, err := kernel.GetRules(table, &nftables.Chain{Name: natChain, Table: table})
		if len(rules) != 1 {
			t.Errorf("%d rules, want 1", len(rules))
		}
		return err
	})
}

// wantSource sends a datagram from one namespace to an address of another, and fails the test if it arrives from
// another source.
func wantSource(t *testing.T, from, to *netspace.Space, address, source string) {
	t.Helper()
	var server, client net.PacketConn
	to.Do(func() (err error) {
		server, err = net.ListenPacket("udp4", address+":0")
		return err
	})
	defer server.Close()
	from.Do(func() (err error) {
		client, err = net.ListenPacket("udp4", ":0")
		return err
	})
	defer client.Close()

	if _, err := client.WriteTo([]byte("hello"), server.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, got, err := server.ReadFrom(make([]byte, 16))
	if err != nil {
		t.Fatalf("nothing arrived at %s: %v", address, err)
	}
	if ip := got.(*net.UDPAddr).IP.String(); ip != source {
		t.Errorf("what arrived at %s is from %s, want %s", address, ip, source)
	}
}
