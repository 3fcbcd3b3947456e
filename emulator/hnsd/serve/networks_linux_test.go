package serve

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// TestNetworkTypes makes networks of the types that no agent of ours makes, by a Windows program with hcsshim:
// Transparent and NAT carry packets, L2Tunnel is objects only, and what cannot be is refused with Windows' codes.
// Row 1.58.
func TestNetworkTypes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startBridgeHost(t, 20348)
	h.build(".", "go", "build", "-o", filepath.Join(h.prefix.DriveC(), "networks.exe"), "./testdata/networks")
	h.build(".", "go", "build", "-o", filepath.Join(h.prefix.DriveC(), "adapters.exe"), "./testdata/adapters")
	before := h.counts()
	refusals := `an adapter that is none: 0x803b0006
a subnet that is none: 0x803b0032
a type that is none: 0x803b000b
an unknown name: not found
deletion with an attached endpoint: 0x803b002c
an address of elsewhere: 0x803b002f
`

	for _, c := range []struct {
		kind, prefix, gateway, address string
		packets                        func(pod string)
	}{
		{"Transparent", "10.99.7.0/24", "10.99.7.1", "10.99.7.101", func(pod string) {
			h.talk("pod to outside", pod, h.out, "203.0.113.1:80", "10.99.7.101")
			h.talk("outside to pod", h.out, pod, "10.99.7.101:80", "10.99.7.1")
			h.talk("host to pod", h.path, pod, "10.99.7.101:80", "10.99.7.21")
			h.talk("host to outside", h.path, h.out, "203.0.113.1:80", "10.99.7.21")
		}},
		{"NAT", "172.28.0.0/20", "172.28.0.1", "172.28.0.9", func(pod string) {
			h.talk("pod to outside", pod, h.out, "203.0.113.1:80", "10.99.7.21")
			h.talk("host to pod", h.path, pod, "172.28.0.9:80", "172.28.0.1")
			mapped(h, pod, "10.99.7.21:8080", ":80")
			for _, name := range []string{"NAT_ep", "172.28.0.9"} {
				var r EndpointRules
				h.control("GET", "/rules/"+name, "", &r)
				last := r.Rules[len(r.Rules)-1]
				if r.Name != "NAT_ep" || r.NetworkName != "NAT" || r.Stats == nil || last.Layer != "port mapping" ||
					last.Packets != 1 || last.Missing {
					t.Errorf("rules of %s: %+v", name, r)
				}
			}
			if got := h.adapters(); !strings.Contains(got,
				`adapter "vEthernet (NAT)" "Hyper-V Virtual Ethernet Adapter" type 6 metric 15 172.28.0.1/20`) {
				t.Errorf("the host's adapters:\n%s", got)
			}
		}},
		{"L2Tunnel", "10.244.7.0/24", "10.244.7.1", "10.244.7.9", func(string) {}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			h.t = t
			pod := h.netns("pod")
			var bound struct{ ID string }
			h.control("POST", "/netns", fmt.Sprintf(`{"path": %q}`, pod), &bound)
			runNetworks(h, "add", c.kind, c.prefix, c.gateway, c.address, bound.ID)
			h.noDrift()

			c.packets(pod)
			if got := runNetworks(h, "wrong", c.kind); got != refusals {
				t.Errorf("codes:\n%swant\n%s", got, refusals)
			}
			runNetworks(h, "delete", c.kind, bound.ID)
			h.control("DELETE", "/netns/"+bound.ID, "", nil)
			h.noDrift()
		})
	}
	h.t = t
	if after := h.counts(); after != before {
		t.Errorf("after all: %s, before: %s", after, before)
	}
	h.talk("host to outside", h.path, h.out, "203.0.113.1:80", "10.99.7.21")
}

// runNetworks runs the Windows program of testdata/networks.
func runNetworks(h *bridgeHost, args ...string) string {
	h.t.Helper()
	cmd := h.tools.Command(h.t.Context(), h.prefix, `C:\networks.exe`, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(h.t, platform.StartInNetns(h.path, cmd))
	if err := cmd.Wait(); err != nil {
		h.t.Fatalf("networks.exe %v: %v\n%s", args, err, out.Bytes())
	}
	return strings.ReplaceAll(out.String(), "\r", "")
}

// mapped connects from outside to an address, and must reach a server in the pod.
func mapped(h *bridgeHost, pod, addr, listen string) {
	h.t.Helper()
	var l net.Listener
	must(h.t, platform.InNetns(pod, func() (err error) {
		l, err = net.Listen("tcp4", listen)
		return err
	}))
	defer l.Close()
	err := platform.InNetns(h.out, func() error {
		c, err := net.DialTimeout("tcp4", addr, 2*time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		h.t.Errorf("a mapped port: %v", err)
	}
}
