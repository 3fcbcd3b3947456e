package network

import (
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
)

// TestUnlearnt: a node counts as learnt if a route to its own range leads through it.
func TestUnlearnt(t *testing.T) {
	addr := netip.MustParseAddr
	want := []config.Node{{Name: "right", Address: addr("10.99.0.11")}, {Name: "none", Address: addr("10.99.0.12")},
		{Name: "other", Address: addr("10.99.0.13")}, {Name: "rangeless", Address: addr("10.99.0.14")},
		{Name: "absent", Address: addr("10.99.0.15")}}
	var have []v1.Node
	for name, cidr := range map[string]string{"right": "10.244.1.0/24", "none": "10.244.2.0/24",
		"other": "10.244.3.0/24", "rangeless": ""} {
		n := v1.Node{Spec: v1.NodeSpec{PodCIDR: cidr}}
		n.Name = name
		have = append(have, n)
	}
	learnt := map[netip.Prefix]netip.Addr{
		netip.MustParsePrefix("10.244.1.0/24"): addr("10.99.0.11"),
		netip.MustParsePrefix("10.244.3.0/24"): addr("10.99.0.11"),
	}
	if got := strings.Join(unlearnt(want, have, learnt), " "); got != "none other rangeless absent" {
		t.Errorf("without a route are %q, want none other rangeless absent", got)
	}
}
