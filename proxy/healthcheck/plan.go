package healthcheck

import (
	"cmp"
	"net/netip"
	"slices"

	"porthole.dev/porthole/proxy/service"
)

// at is a socket: one address of this node and a port. The zero address is every address, of both families.
type at struct {
	addr netip.Addr
	port uint16
}

func (a at) String() string {
	if !a.addr.IsValid() {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), a.port).String()
	}
	return netip.AddrPortFrom(a.addr, a.port).String()
}

// changes are the sockets to close and then those to open.
type changes struct {
	close, open []at
}

// plan compares the open sockets with the checks that are wanted on the addresses, and returns who owns each socket
// afterwards. If two services ask for one port, because one replaces the other, the first by name has it.
func plan(wanted map[string]service.HealthCheck, addrs []netip.Addr, open map[at]string) (changes, map[at]string) {
	owners := map[at]string{}
	for name, check := range wanted {
		for _, addr := range addrs {
			socket := at{addr, check.Port}
			if old, taken := owners[socket]; !taken || name < old {
				owners[socket] = name
			}
		}
	}

	var c changes
	for socket := range open {
		if _, stays := owners[socket]; !stays {
			c.close = append(c.close, socket)
		}
	}
	for socket := range owners {
		if _, is := open[socket]; !is {
			c.open = append(c.open, socket)
		}
	}

	order := func(a, b at) int { return cmp.Or(cmp.Compare(a.port, b.port), a.addr.Compare(b.addr)) }
	slices.SortFunc(c.close, order)
	slices.SortFunc(c.open, order)
	return c, owners
}

// choose returns the addresses to listen on: those of the node in one of the ranges. If there are none, it returns the
// zero address, which is every address.
func choose(ranges []netip.Prefix, node []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, addr := range node {
		addr = addr.Unmap().WithZone("")
		if addr.IsLinkLocalUnicast() {
			continue
		}
		if slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(addr) }) &&
			!slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	if len(out) == 0 {
		return []netip.Addr{{}}
	}
	return out
}
