package kubelet

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-iptables/iptables"

	"porthole.dev/porthole/internal/testkit/netspace"
)

// TestChains: a node that routes packets to its loopback addresses, as with kube-proxy, drops those from outside once
// the kubelet has made its chains. They are made once, and again when something has taken away all of the firewall.
func TestChains(t *testing.T) {
	node, out := netspace.New(t, "node"), netspace.New(t, "out")
	node.Connect("eth0", out, "eth0")
	node.Address("eth0", "10.99.8.1/24")
	out.Address("eth0", "10.99.8.2/24")
	sh := func(in *netspace.Space, script string) (said string) {
		t.Helper()
		in.Do(func() error {
			text, err := exec.Command("sh", "-ec", script).CombinedOutput()
			if said = string(text); err != nil {
				return fmt.Errorf("%s: %w: %s", script, err, text)
			}
			return nil
		})
		return said
	}
	sh(node, "echo 1 > /proc/sys/net/ipv4/conf/eth0/route_localnet")
	sh(out, `echo 1 > /proc/sys/net/ipv4/conf/eth0/route_localnet
ip route del table local local 127.0.0.0/8 dev lo; ip route del table local local 127.0.0.1 dev lo; ip route add 127.0.0.0/8 via 10.99.8.1`)

	var listener net.PacketConn
	node.Do(func() (err error) { listener, err = net.ListenPacket("udp", "127.0.0.1:0"); return err })
	t.Cleanup(func() { _ = listener.Close() })
	reached := func(from *netspace.Space) bool {
		t.Helper()
		from.Do(func() error {
			conn, err := net.Dial("udp", listener.LocalAddr().String())
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte("x"))
			return err
		})
		err := listener.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		if err == nil {
			_, _, err = listener.ReadFrom(make([]byte, 1))
		}
		return err == nil
	}
	if !reached(out) {
		t.Fatal("the node's loopback address is out of reach without the rule: this test shows nothing")
	}

	var four, six chains
	node.Do(func() (err error) {
		if four.IPTables, err = iptables.New(iptables.IPFamily(iptables.ProtocolIPv4)); err == nil {
			six.IPTables, err = iptables.New(iptables.IPFamily(iptables.ProtocolIPv6))
		}
		return err
	})
	node.Do(four.ensure)
	node.Do(six.ensure)
	if reached(out) || !reached(node) {
		t.Error("the node's loopback address is to be reached by the node alone")
	}
	const save = "iptables-save | grep ^[-:]; ip6tables-save | grep ^[-:]"
	made := sh(node, save)
	node.Do(four.ensure) // as after a restart
	node.Do(six.restore)
	if again := sh(node, save); again != made {
		t.Errorf("made a second time:\n%s\nonce:\n%s", again, made)
	}

	sh(node, "iptables -D INPUT -j KUBE-FIREWALL")
	node.Do(four.restore)
	if now := sh(node, save); now == made {
		t.Error("the rule is back though the canary was there: what takes away one rule has its reasons")
	}
	sh(node, "for t in filter nat mangle; do iptables -t $t -F; iptables -t $t -X; done")
	node.Do(four.restore)
	if now := sh(node, save); now != made || strings.Count(now, "KUBE-IPTABLES-HINT") != 2 {
		t.Errorf("after the firewall was taken away:\n%s\nbefore:\n%s", now, made)
	}
}
