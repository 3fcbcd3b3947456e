package killtest

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/hostgw"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/tor"
)

var (
	self = netip.MustParseAddr("10.0.0.11")
	pods = netip.MustParsePrefix("10.244.0.0/16")
)

// cluster is this node, lin01, with three others on its segment.
func cluster() []table.Node {
	var nodes []table.Node
	for i, name := range []string{"lin01", "lin02", "win01", "win02"} {
		nodes = append(nodes, table.Node{Name: name, Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(11 + i)}),
			PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(1 + i), 0}), 24)}})
	}
	return nodes
}

// space is the host: a network namespace with an uplink.
type space struct{ *netspace.Space }

func newSpace(t *testing.T) space {
	t.Helper()
	s, _ := newSegment(t)
	return s
}

// newSegment also returns what the host's uplink leads to, its interface lin01.
func newSegment(t *testing.T) (space, *netspace.Space) {
	t.Helper()
	s, segment := space{netspace.New(t, "lin01")}, netspace.New(t, "segment")
	s.Connect("eth0", segment, "lin01")
	s.Address("eth0", self.String()+"/24")
	return s, segment
}

// ip runs the lines in order as arguments of ip, or of bridge if the line begins so.
func (s space) ip(lines ...string) error {
	for _, line := range lines {
		if _, err := s.show(line); err != nil {
			return err
		}
	}
	return nil
}

// show returns what ip prints, by lines without what surrounds them.
func (s space) show(line string) (list []string, err error) {
	program, args := "ip", strings.Fields(line)
	if args[0] == "bridge" {
		program, args = args[0], args[1:]
	}
	out, err := exec.Command(program, append([]string{"-n", s.Name}, args...)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, line, err, out)
	}
	for text := range strings.Lines(string(out)) {
		list = append(list, strings.TrimSpace(text))
	}
	return list, nil
}

// routes returns the routes through gateways.
func (s space) routes() (list []string, err error) {
	all, err := s.show("-4 route show")
	for _, line := range all {
		if strings.Contains(line, " via ") {
			list = append(list, line)
		}
	}
	return list, err
}

// others are routes of other programs: outside and inside of the pods' range, and beside one of ours.
var others = []string{
	"172.31.0.0/24 via 10.0.0.12 dev eth0 proto static",
	"10.244.77.0/24 via 10.0.0.12 dev eth0 proto bird",
	"10.244.4.0/24 via 10.0.0.1 dev eth0 proto static metric 50",
}

// routed makes the host that has only these routes, and those of others.
func (s space) routed(routes ...string) error {
	lines := []string{"-4 route flush proto static", "-4 route flush proto bird", "-4 route flush proto 201"}
	for _, r := range append(routes, others...) {
		lines = append(lines, "route add "+r)
	}
	return s.ip(lines...)
}

func (s space) start(cmd *exec.Cmd) error { return platform.StartInNetns(s.Path, cmd) }

func TestHostGateway(t *testing.T) {
	EachChange(t, Agent[hostgw.Seen, table.Change]{
		Mode: func(string) (keep.Mode[hostgw.Seen, table.Change], []table.Node, error) {
			host, err := fib.New(self, pods)
			return hostgw.New("lin01", table.Cluster{Pods: []netip.Prefix{pods}}, host), cluster(), err
		},
		Host: func(t *testing.T, _ string) Host {
			s := newSpace(t)
			return Host{Start: s.start, Tables: s.routes, Foreign: others,
				Before: func() error {
					return s.routed("10.244.2.0/24 via 10.0.0.13 proto 201", "10.244.8.0/24 via 10.0.0.13 proto 201",
						"10.244.9.0/24 via 10.0.0.14 proto 201")
				},
				Want: []string{
					"10.244.2.0/24 via 10.0.0.12 dev eth0 proto 201",
					"10.244.3.0/24 via 10.0.0.13 dev eth0 proto 201",
					"10.244.4.0/24 via 10.0.0.14 dev eth0 proto 201",
				}}
		},
	})
}

// TestTor starts where host-gateway was before.
func TestTor(t *testing.T) {
	EachChange(t, Agent[[]table.Route, table.Change]{
		Mode: func(string) (keep.Mode[[]table.Route, table.Change], []table.Node, error) {
			host, err := fib.New(self, pods)
			return tor.New("lin01", table.Cluster{Pods: []netip.Prefix{pods}}, host), cluster(), err
		},
		Host: func(t *testing.T, _ string) Host {
			s := newSpace(t)
			return Host{Start: s.start, Tables: s.routes, Foreign: others, Before: func() error {
				return s.routed("10.244.2.0/24 via 10.0.0.12 proto 201", "10.244.3.0/24 via 10.0.0.13 proto 201",
					"10.244.9.0/24 via 10.0.0.14 proto 201")
			}}
		},
	})
}

// TestTorRouter keeps the routes of a router that is a Linux kernel. Its own are the static ones.
func TestTorRouter(t *testing.T) {
	foreign := []string{"172.31.0.0/24 via 10.0.0.12 dev eth0 proto static",
		"10.244.77.0/24 via 10.0.0.12 dev eth0 proto bird"}
	EachChange(t, Agent[[]tor.Running, tor.RouterChange]{
		Mode: func(string) (keep.Mode[[]tor.Running, tor.RouterChange], []table.Node, error) {
			driver, err := tor.NewDriver("ip", "")
			return tor.NewRouter(driver, table.Cluster{Pods: []netip.Prefix{pods}}), cluster()[1:], err
		},
		Host: func(t *testing.T, _ string) Host {
			s := newSpace(t)
			return Host{Start: s.start, Tables: s.routes, Foreign: foreign,
				Before: func() error {
					return s.ip("-4 route flush proto static", "-4 route flush proto bird", "route add "+foreign[0],
						"route add "+foreign[1],
						"route add 10.244.2.0/24 proto static nexthop via 10.0.0.12 nexthop via 10.0.0.13",
						"route add 10.244.3.0/24 via 10.0.0.14 proto static",
						"route add 10.244.9.0/24 via 10.0.0.14 proto static")
				},
				Want: []string{
					"10.244.2.0/24 via 10.0.0.12 dev eth0 proto static",
					"10.244.3.0/24 via 10.0.0.13 dev eth0 proto static",
					"10.244.4.0/24 via 10.0.0.14 dev eth0 proto static",
				}}
		},
	})
}
