package serve

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
)

// adaptersBefore and adaptersSwitched are what a program of the host lists before there is a virtual switch and before
// the host has DNS servers, and with one on the first card and an endpoint of the host, while `porthole.exe routes`
// runs.
const (
	adaptersBefore = `adapter "Ethernet 2" "Microsoft Hyper-V Network Adapter #2" type 6 metric 15 10.98.7.21/24 dns fec0:0:0:ffff::1 dns fec0:0:0:ffff::2 dns fec0:0:0:ffff::3
adapter "Ethernet" "Microsoft Hyper-V Network Adapter" type 6 metric 15 10.99.7.21/24 via 10.99.7.1 dns fec0:0:0:ffff::1 dns fec0:0:0:ffff::2 dns fec0:0:0:ffff::3
adapter "Loopback Pseudo-Interface 1" "Software Loopback Interface 1" type 24 metric 75 127.0.0.1/8 dns fec0:0:0:ffff::1 dns fec0:0:0:ffff::2 dns fec0:0:0:ffff::3
params dns ""
go "Ethernet 2" 10.98.7.21/24
go "Ethernet" 10.99.7.21/24
go "Loopback Pseudo-Interface 1" 127.0.0.1/8
interface "Ethernet 2"
interface "Ethernet"
interface "Loopback Pseudo-Interface 1"
default via 10.99.7.1 on "Ethernet" metric 0
IP "Ethernet 2" metric 15 forwarding false
IP "Ethernet" metric 15 forwarding false
IP "Loopback Pseudo-Interface 1" metric 75 forwarding false
`
	adaptersSwitched = `adapter "vEthernet (porthole_ep)" "Hyper-V Virtual Ethernet Adapter #2" type 6 metric 15 10.244.7.2/24 dns fec0:0:0:ffff::1 dns fec0:0:0:ffff::2 dns fec0:0:0:ffff::3
adapter "vEthernet (Ethernet)" "Hyper-V Virtual Ethernet Adapter" type 6 metric 15 10.99.7.21/24 via 10.99.7.1 dns 10.99.7.53 dns 10.99.7.54
adapter "Ethernet 2" "Microsoft Hyper-V Network Adapter #2" type 6 metric 15 10.98.7.21/24 dns fec0:0:0:ffff::1 dns fec0:0:0:ffff::2 dns fec0:0:0:ffff::3
adapter "Loopback Pseudo-Interface 1" "Software Loopback Interface 1" type 24 metric 75 127.0.0.1/8 dns fec0:0:0:ffff::1 dns fec0:0:0:ffff::2 dns fec0:0:0:ffff::3
params dns "10.99.7.53" dns "10.99.7.54"
go "vEthernet (porthole_ep)" 10.244.7.2/24
go "vEthernet (Ethernet)" 10.99.7.21/24
go "Ethernet 2" 10.98.7.21/24
go "Loopback Pseudo-Interface 1" 127.0.0.1/8
interface "vEthernet (porthole_ep)"
interface "vEthernet (Ethernet)"
interface "Ethernet 2"
interface "Ethernet"
interface "Loopback Pseudo-Interface 1"
default via 10.99.7.1 on "vEthernet (Ethernet)" metric 0
IP "vEthernet (porthole_ep)" metric 15 forwarding true
IP "vEthernet (Ethernet)" metric 15 forwarding true
IP "Ethernet 2" metric 15 forwarding false
IP "Loopback Pseudo-Interface 1" metric 75 forwarding false
`
)

// adaptersAre compares what a program of the host lists.
func (h *bridgeHost) adaptersAre(want string) {
	h.t.Helper()
	if got := h.adapters(); got != want {
		h.t.Errorf("the host's adapters are\n%swant\n%s", got, want)
	}
}

// card gives the host another network card.
func (h *bridgeHost) card(name, addr string) {
	h.t.Helper()
	far := netspace.New(h.t, "far")
	must(h.t, platform.InNetns(far.Path, func() error {
		return errors.Join(platform.CreateVeth("far", name, h.path), platform.LinkUp("far"))
	}))
	must(h.t, platform.InNetns(h.path, func() error {
		return errors.Join(platform.LinkUp(name), platform.SetAddress(name, netip.MustParsePrefix(addr)))
	}))
}

// adapters returns what the Windows program of testdata/adapters prints.
func (h *bridgeHost) adapters() string {
	h.t.Helper()
	cmd := h.tools.Command(h.t.Context(), h.prefix, `C:\adapters.exe`)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(h.t, platform.StartInNetns(h.path, cmd))
	if err := cmd.Wait(); err != nil {
		h.t.Fatalf("adapters.exe: %v\n%s", err, out.Bytes())
	}
	return strings.ReplaceAll(out.String(), "\r", "")
}
