package networks

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestVXLANUpstreamPlugin: upstream's win-overlay.exe and host-local.exe give the pods of the Windows nodes their
// network, with the configuration that routes writes and beside our agent. All paths of TestVXLAN, where ours does,
// carry packets.
func TestVXLANUpstreamPlugin(t *testing.T) {
	long(t)
	l := up(t, "vxlan")
	for _, node := range []string{"win01", "win02"} {
		for _, name := range []string{"win-overlay.exe", "host-local.exe"} {
			program, err := os.ReadFile(filepath.Join("../../bin/bundle/cni-windows", name))
			if err != nil {
				t.Fatalf("%v: run `make bundle-tests` first", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "hosts", node, "prefix", "drive_c", "opt", "cni", "bin", name),
				program, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		l.hnsOf(node, "stats", "reset")
	}

	f := l.fleet()
	for _, node := range []string{"win01", "win02"} {
		if stats := l.hnsOf(node, "stats"); !strings.Contains(stats, "HNSCall") {
			t.Errorf("upstream's win-overlay.exe uses HNS v1, and nobody on %s did:\n%s", node, stats)
		}
	}
	f.checkPaths(promise{mtu: 1450, encap: "vxlan", vni: 4096, port: 4789})
}

// reasonOn returns what the routes of one node say about the path to another.
func reasonOn(node, to string) (string, error) {
	out, err := commandIn("porthole-"+node, shortly, "curl", "-sS", "-m", "5", "http://127.0.0.1:10261/status")
	if err != nil {
		return "", err
	}
	var s struct {
		Routes []struct{ Node, Reason string }
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return "", err
	}
	for _, r := range s.Routes {
		if r.Node == to {
			return r.Reason, nil
		}
	}
	return "", fmt.Errorf("there is no route to %s: %s", to, out)
}

// narrowPath: the switch carries no packets of ICMP and UDP of more than 1,400 bytes to lin01, without a word. Routes
// of win01 find that at their start, and name it. TCP is left alone, so that the API server stays reachable.
func (f *fleet) narrowPath() {
	f.t.Helper()
	nft := func(args ...string) {
		f.t.Helper()
		if _, err := commandIn("porthole-tor", shortly, "nft", args...); err != nil {
			f.t.Fatal(err)
		}
	}
	expect := func(what, part string) {
		f.t.Helper()
		f.complete("win01", f.kill("win01"))
		wait.NoError(f.t, 15*time.Second, what, func() error {
			reason, err := reasonOn("win01", "lin01")
			if err == nil && (part == "" && reason != "" || !strings.Contains(reason, part)) {
				err = fmt.Errorf("the routes of win01 say %q", reason)
			}
			return err
		})
	}

	nft("add table bridge narrow; add chain bridge narrow forward { type filter hook forward priority 0; }; " +
		`add rule bridge narrow forward oifname "lin01" ip length > 1400 ip protocol { icmp, udp } drop`)
	expect("the narrow path", "packets to node lin01 (10.99.0.11) of more than 1400 bytes get lost")
	nft("delete table bridge narrow")
	expect("the wide path", "")
	f.reach("after the path was narrow", "win01")
}

// otherMAC: the VXLAN device of lin01 gets another MAC address. The node announces it, and Windows nodes follow.
func (f *fleet) otherMAC() {
	f.t.Helper()
	mac := net.HardwareAddr{0x0e, 0x2a, 0, 0, 0x12, 0x34}
	err := platform.InNetns(platform.NetnsPath("porthole-lin01"), func() error {
		link, err := netlink.LinkByName("flannel.4096")
		if err == nil {
			err = netlink.LinkSetHardwareAddr(link, mac)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, node := range []string{"win01", "win02"} {
		wait.NoError(f.t, 15*time.Second, "the policies of "+node, func() error {
			n, err := f.overlay(node)
			text := strings.Join(n.routes(), "\n")
			if err == nil && !strings.Contains(text, "0E-2A-00-00-12-34") {
				err = fmt.Errorf("policies:\n%s", text)
			}
			return err
		})
	}
	f.reach("lin01 has another MAC address", "lin01")
}
