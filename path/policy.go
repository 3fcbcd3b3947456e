package path

import (
	"encoding/json"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
)

// outbound reports whether an endpoint leaves with the node's address, and the ranges to which it keeps its own.
func outbound(e *hns.Endpoint) (nat bool, exceptions []netip.Prefix) {
	for _, p := range e.Policies {
		if !strings.EqualFold(p.Type, "OutBoundNAT") {
			continue
		}
		nat = true
		var s struct{ Exceptions, ExceptionList []string }
		if json.Unmarshal(p.Settings, &s) != nil {
			continue
		}
		for _, text := range append(s.Exceptions, s.ExceptionList...) {
			if x, err := netip.ParsePrefix(text); err == nil {
				exceptions = append(exceptions, x)
			} else if a, err := netip.ParseAddr(text); err == nil {
				exceptions = append(exceptions, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return nat, exceptions
}

// routed reports whether a route policy of the endpoint hands packets for the address to the host.
func routed(e *hns.Endpoint, to netip.Addr) bool {
	for _, p := range e.Policies {
		if !strings.EqualFold(p.Type, "SDNRoute") && !strings.EqualFold(p.Type, "ROUTE") {
			continue
		}
		var s struct{ DestinationPrefix string }
		if json.Unmarshal(p.Settings, &s) != nil {
			continue
		}
		if r, err := netip.ParsePrefix(s.DestinationPrefix); err == nil && r.Contains(to) {
			return true
		}
	}
	return false
}
