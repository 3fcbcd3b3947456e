package killtest

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"porthole.dev/porthole/routes/bgp"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// long skips the test, which takes minutes, unless PORTHOLE_NETWORKS is "long".
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("PORTHOLE_NETWORKS") != "long" {
		t.Skip("takes long: PORTHOLE_NETWORKS=long, or `make test-networks`")
	}
}

// speaks tests the mode bgp of the first of the nodes that find returns. Its only peer is the router that has the
// second address, which announces the ranges of all others. The speaker is in the agent's process: an agent that
// starts has it to start again, and its routes stay.
func speaks(t *testing.T, find func() (router netip.Addr, nodes []table.Node, err error),
	host func(t *testing.T, dir string) Host) {
	EachChange(t, Agent[bgp.Seen, bgp.Change]{
		Mode: func(string) (keep.Mode[bgp.Seen, bgp.Change], []table.Node, error) {
			router, nodes, err := find()
			if err != nil {
				return nil, nil, err
			}
			config, err := bgp.Parse(fmt.Appendf(nil, "connectRetry: 1s\npeers:\n- {peerIP: %s, asNumber: 64512}\n",
				router))
			if err != nil {
				return nil, nil, err
			}
			table, err := fib.New(nodes[0].Addr, pods)
			return bgp.New(bgp.Options{Node: nodes[0].Name, Addr: nodes[0].Addr, Cluster: pods, Config: config},
				table), nodes, err
		},
		Host:    host,
		Settled: func(s bgp.Seen) bool { return s.Heard && s.Told },
		Lasts:   func(c bgp.Change) bool { return c.Verb == bgp.Route || c.Verb == bgp.Unroute },
	})
}
