package networks

import "testing"

// TestHostGateway: nodes reach each other's pods directly, through each other's addresses.
func TestHostGateway(t *testing.T) {
	f := up(t, "host-gateway").fleet()
	f.checkPaths(promise{
		mtu:  1500,
		via:  func(_, to string) string { return to },
		hops: func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} },
	})
	f.checkNodes()
}
