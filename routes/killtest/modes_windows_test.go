package killtest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/hostgw"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/tor"
)

// Ranges that no host uses: for benchmarks (RFC 2544) and for documentation (RFC 5737).
var (
	pods    = netip.MustParsePrefix("198.18.0.0/15")
	outside = netip.MustParsePrefix("198.51.100.0/24")
)

// uplink is the adapter that has the node's address, with three addresses that it reaches directly.
type uplink struct {
	luid       winipcfg.LUID
	self       netip.Addr
	neighbours [3]netip.Addr
}

// findUplink returns the first adapter of which that is true. It finds the same one each time.
func findUplink() (u uplink, err error) {
	adapters, err := winipcfg.GetAdaptersAddresses(windows.AF_INET, winipcfg.GAAFlagDefault)
	if err != nil {
		return u, err
	}
	for _, a := range adapters {
		for n := a.FirstUnicastAddress; n != nil; n = n.Next {
			addr, ok := netip.AddrFromSlice(n.Address.IP())
			if !ok || addr.Unmap().IsLoopback() || n.OnLinkPrefixLength > 28 {
				continue
			}
			u = uplink{luid: a.LUID, self: addr.Unmap()}
			next := netip.PrefixFrom(u.self, int(n.OnLinkPrefixLength)).Masked().Addr().Next()
			for i := range u.neighbours {
				if next == u.self {
					next = next.Next()
				}
				u.neighbours[i], next = next, next.Next()
			}
			return u, nil
		}
	}
	return u, errors.New("no adapter has an IPv4 address")
}

// nodes are this node and its neighbours.
func (u uplink) nodes() []table.Node {
	nodes := []table.Node{{Name: "self", Addr: u.self, PodCIDRs: []netip.Prefix{podRange(1)}}}
	for i, n := range u.neighbours {
		nodes = append(nodes, table.Node{Name: fmt.Sprintf("n%d", i), Addr: n,
			PodCIDRs: []netip.Prefix{podRange(2 + i)}})
	}
	return nodes
}

func podRange(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(n), 0}), 24)
}

// winRoute is a route of the host.
type winRoute struct {
	dst    netip.Prefix
	hop    netip.Addr
	metric uint32
}

func (r winRoute) String() string { return fmt.Sprintf("%s via %s metric %d", r.dst, r.hop, r.metric) }

func texts(routes []winRoute) (list []string) {
	for _, r := range routes {
		list = append(list, r.String())
	}
	return list
}

// routes returns those of the ranges above.
func routes() (list []winRoute, err error) {
	rows, err := winipcfg.GetIPForwardTable2(windows.AF_INET)
	for i := range rows {
		if dst := rows[i].DestinationPrefix.Prefix(); pods.Overlaps(dst) && dst.Bits() >= pods.Bits() ||
			dst == outside {
			list = append(list, winRoute{dst, rows[i].NextHop.Addr(), rows[i].Metric})
		}
	}
	return list, err
}

// only makes the host that has exactly these routes in the ranges.
func (u uplink) only(list []winRoute) error {
	old, err := routes()
	if err != nil {
		return err
	}
	for _, r := range old {
		if err := u.luid.DeleteRoute(r.dst, r.hop); err != nil && !errors.Is(err, windows.ERROR_NOT_FOUND) {
			return fmt.Errorf("deleting %s: %w", r, err)
		}
	}
	for _, r := range list {
		if err := u.luid.AddRoute(r.dst, r.hop, r.metric); err != nil {
			return fmt.Errorf("adding %s: %w", r, err)
		}
	}
	return nil
}

// host is this Windows host with routes of ours and of others: outside of the pods' range, and inside with another
// metric.
func host(t *testing.T, want func(uplink) []winRoute) Host {
	if !windows.GetCurrentProcessToken().IsElevated() {
		t.Skip("changing routes needs an administrator")
	}
	u, err := findUplink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.only(nil); err != nil {
			t.Error(err)
		}
	})

	n := u.neighbours
	ours := []winRoute{{podRange(2), n[1], 0}, {podRange(3), n[1], 0}, {podRange(3), n[0], 0}, {podRange(9), n[2], 0}}
	others := []winRoute{{outside, n[0], 0}, {podRange(77), n[0], 5}}
	return Host{
		Before: func() error { return u.only(slices.Concat(ours, others)) },
		Tables: func() ([]string, error) {
			list, err := routes()
			return texts(list), err
		},
		Want: texts(want(u)), Foreign: texts(others),
	}
}

func TestHostGateway(t *testing.T) {
	EachChange(t, Agent[hostgw.Seen, table.Change]{
		Mode: func(string) (keep.Mode[hostgw.Seen, table.Change], []table.Node, error) {
			u, err := findUplink()
			if err != nil {
				return nil, nil, err
			}
			host, err := fib.New(u.self, pods)
			return hostgw.New("self", table.Cluster{Pods: []netip.Prefix{pods}}, host), u.nodes(), err
		},
		Host: func(t *testing.T, _ string) Host {
			return host(t, func(u uplink) (want []winRoute) {
				for _, n := range u.nodes()[1:] {
					want = append(want, winRoute{n.PodCIDRs[0], n.Addr, 0})
				}
				return want
			})
		},
	})
}

// TestTor starts where host-gateway was before.
func TestTor(t *testing.T) {
	EachChange(t, Agent[[]table.Route, table.Change]{
		Mode: func(string) (keep.Mode[[]table.Route, table.Change], []table.Node, error) {
			u, err := findUplink()
			if err != nil {
				return nil, nil, err
			}
			host, err := fib.New(u.self, pods)
			return tor.New("self", table.Cluster{Pods: []netip.Prefix{pods}}, host), u.nodes(), err
		},
		Host: func(t *testing.T, _ string) Host { return host(t, func(uplink) []winRoute { return nil }) },
	})
}
