package killtest

import (
	"net/netip"
	"testing"

	"porthole.dev/porthole/routes/table"
)

// TestBGP needs a router at the first address of the host's segment, of AS 64512, which announces the ranges of the
// nodes: who starts this test has it (emulator/hnsd/serve TestBGPKilled).
func TestBGP(t *testing.T) {
	long(t)
	find := func() (netip.Addr, []table.Node, error) {
		u, err := findUplink()
		return u.neighbours[0], u.nodes(), err
	}
	speaks(t, find, func(t *testing.T, _ string) Host {
		return host(t, func(u uplink) (want []winRoute) {
			for _, n := range u.nodes()[1:] {
				want = append(want, winRoute{n.PodCIDRs[0], n.Addr, 0})
			}
			return want
		})
	})
}
