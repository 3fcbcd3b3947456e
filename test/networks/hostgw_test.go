package networks

import (
	"os"
	"testing"
)

// TestHostGateway: nodes reach each other's pods directly, through each other's addresses. The pods have the ranges of
// the first guide to Windows nodes: three /24s from 192.168.0.0 on.
// Rows 1.31, 1.42, 1.44.
func TestHostGateway(t *testing.T) {
	f := up(t, "host-gateway", "--pod-cidr", "192.168.0.0/21").fleet()
	f.checkPaths(promise{
		mtu:  1500,
		via:  func(_, to string) string { return to },
		hops: func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} },
	})
	f.checkNodes()
	f.checkLiars("192.168.6.0/24", refused)
	f.checkStatus(2, 0)
	d := pathCheck{f}
	d.checkComputed()
	if os.Getenv("PORTHOLE_NETWORKS") == "long" {
		d.testFlaws()
	}
}

// TestHostGatewayDualStack is the same with both families, and ranges that are no /24.
func TestHostGatewayDualStack(t *testing.T) {
	long(t)
	f := up(t, "host-gateway", "--pod-cidr", "10.32.0.0/14,fd00:10:32::/56", "--node-cidr-mask-size", "22").fleet()
	if f.six == nil {
		t.Fatal("the pods have no address of IPv6")
	}
	f.checkPaths(promise{mtu: 1500, via: func(_, to string) string { return to }})
}
