package table

import (
	"net/netip"
	"testing"
)

func TestMatchPrefixes(t *testing.T) {
	for want, in := range map[string][]netip.Prefix{
		"ip daddr { 10.0.0.0/8 } ": {netip.MustParsePrefix("10.1.0.0/16"),
			netip.MustParsePrefix("10.0.0.0/8")},
		"": {netip.MustParsePrefix("0.0.0.0/0"),
			netip.MustParsePrefix("10.0.0.0/8")},
		"ip daddr 255.255.255.255 ": {netip.MustParsePrefix("fd00::/8")},
		"ip daddr { 10.1.0.0/16, 10.2.0.1/32 } ": {netip.MustParsePrefix("10.2.0.1/32"),
			netip.MustParsePrefix("10.1.2.0/16")},
	} {
		if got := IPv4.MatchPrefixes("ip daddr", in); got != want {
			t.Errorf("prefixes %v: got %q, want %q", in, got, want)
		}
	}
}
