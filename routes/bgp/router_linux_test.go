package bgp

import (
	"fmt"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/testkit/routers"
)

// frr starts zebra, bgpd and, if withBFD, bfdd with this configuration of bgpd.
func frr(t *testing.T, path, config string, withBFD bool) *routers.Router {
	t.Helper()
	r := routers.FRR(t, path)
	r.Daemon("zebra", "")
	if withBFD {
		r.Daemon("bfdd", "")
	}
	r.Daemon("bgpd", config)
	return r
}

// vtysh runs commands at the terminal of a router's FRR.
func vtysh(r *routers.Router, commands ...string) string {
	r.T.Helper()
	out, err := r.Vtysh(commands...)
	if err != nil {
		r.T.Fatal(err)
	}
	return out
}

// frrRouter returns bgpd's configuration of a router whose neighbours are the nodes. asOf returns the AS of the node
// of an index.
func frrRouter(as int, asOf func(int) int, each ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n timers bgp 3 9\n bgp graceful-restart restart-time 30\n", as, torAddr)
	for i, h := range hosts {
		fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %s timers connect 1\n", h.addr, asOf(i), h.addr)
		for _, line := range each {
			fmt.Fprintf(&b, " neighbor %s %s\n", h.addr, line)
		}
	}
	return b.String()
}
