package lab

import (
	"net/netip"
	"testing"
)

func TestChooseAddress(t *testing.T) {
	addr := netip.MustParseAddr
	used := map[netip.Addr]string{Router: "the router", addr("10.99.0.101"): "host a", addr("10.99.0.102"): "host b",
		addr("10.99.0.254"): "host c"}

	for _, tc := range []struct{ want, first, got string }{
		{"", "10.99.0.101", "10.99.0.103"},
		{"", "10.99.0.254", "!"},
		{"10.99.0.150", "10.99.0.101", "10.99.0.150"},
		{"10.99.0.101", "10.99.0.101", "!"},
		{"10.99.0.1", "10.99.0.101", "!"},
		{"10.99.0.0", "10.99.0.101", "!"},
		{"10.99.0.255", "10.99.0.101", "!"},
		{"192.0.2.1", "10.99.0.101", "!"},
		{"fd00::1", "10.99.0.101", "!"},
	} {
		var want netip.Addr
		if tc.want != "" {
			want = addr(tc.want)
		}
		got, err := chooseAddress(want, addr(tc.first), used)
		if tc.got == "!" {
			if err == nil {
				t.Errorf("%+v: got %s, want an error", tc, got)
			}
		} else if err != nil || got != addr(tc.got) {
			t.Errorf("%+v: got %s, %v", tc, got, err)
		}
	}
}
