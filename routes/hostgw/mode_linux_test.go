package hostgw

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

type keeper = keep.Keeper[Seen, table.Change]

// The example of the first Kubernetes guide for Windows nodes, as namespaces on one switch, each with a pod address of
// its range.
var guide = []struct {
	name, addr, pods, pod string
}{
	{"lin01", "10.0.0.11", "192.168.0.0/24", "192.168.0.10"},
	{"win01", "10.0.0.21", "192.168.1.0/24", "192.168.1.10"},
	{"win02", "10.0.0.22", "192.168.2.0/24", "192.168.2.10"},
}

var clusterRange = netip.MustParsePrefix("192.168.0.0/16")

// nodeList are nodes of a cluster that a test changes.
type nodeList struct {
	mu    sync.Mutex
	nodes []table.Node
}

func (l *nodeList) Routable() ([]table.Node, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes, l.nodes != nil
}

func (l *nodeList) set(nodes ...table.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = nodes
}

func guideNodes() []table.Node {
	var nodes []table.Node
	for _, h := range guide {
		nodes = append(nodes, table.Node{Name: h.name, Addr: netip.MustParseAddr(h.addr),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix(h.pods)}})
	}
	return nodes
}

// segment is the guide's hosts on one switch.
type segment struct {
	t    *testing.T
	path map[string]string // of each host's namespace
}

// newSegment makes the hosts. The pod address of each is on lo, so that a packet which reaches it has found the right
// host.
func newSegment(t *testing.T) *segment {
	t.Helper()
	s, sw := &segment{t: t, path: map[string]string{}}, netspace.New(t, "switch")
	var ports []string
	for _, h := range guide {
		host := netspace.New(t, h.name)
		host.Connect("eth0", sw, h.name)
		host.Address("eth0", h.addr+"/24")
		host.Address("lo", h.pod+"/32")
		host.Forward()
		s.path[h.name] = host.Path
		ports = append(ports, h.name)
	}
	sw.Bridge("sw0", ports...)
	return s
}

// in runs f on a thread inside a host's namespace.
func (s *segment) in(path string, f func() error) {
	s.t.Helper()
	if err := platform.InNetns(path, f); err != nil {
		s.t.Fatal(err)
	}
}

// keep runs a keeper on one host until the test ends.
func (s *segment) keep(host, addr string, nodes *nodeList) *keeper {
	s.t.Helper()
	tab, err := fib.In(s.path[host], netip.MustParseAddr(addr), clusterRange)
	if err != nil {
		s.t.Fatal(err)
	}
	k := keep.New(New(host, table.Cluster{Pods: []netip.Prefix{clusterRange}}, tab),
		keep.Options{Nodes: nodes.Routable})
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.Run(ctx) })
	s.t.Cleanup(func() { stop(); done.Wait(); tab.Close() })
	return k
}

// routes returns the next hop by destination of the routes in the host's main table that have the protocol, 0 for all.
func (s *segment) routes(host string, protocol int) map[string]string {
	s.t.Helper()
	found := map[string]string{}
	s.in(s.path[host], func() error {
		list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range list {
			if r.Gw != nil && (protocol == 0 || int(r.Protocol) == protocol) {
				found[r.Dst.String()] = r.Gw.String()
			}
		}
		return err
	})
	return found
}

// within waits until ok, for at most the 2 s in which a route must be right again.
func (s *segment) within(what string, ok func() bool) time.Duration {
	s.t.Helper()
	start := time.Now()
	wait.True(s.t, 2*time.Second, what, ok)
	return time.Since(start)
}

// carries sends a datagram from one pod address to another and waits for the echo.
func (s *segment) carries(from, to int) error {
	end := func(i int) netspace.End { return netspace.End{Netns: s.path[guide[i].name], Addr: guide[i].pod} }
	return netspace.Exchange(s.t, end(from), end(to), 4)
}

// guideTest is the segment with a keeper on each host.
type guideTest struct {
	*segment
	nodes   *nodeList
	keepers map[string]*keeper
}

// Rows 1.32, 1.44.
func TestGuide(t *testing.T) {
	g := &guideTest{segment: newSegment(t), nodes: &nodeList{}, keepers: map[string]*keeper{}}
	for _, h := range guide {
		g.keepers[h.name] = g.keep(h.name, h.addr, g.nodes)
	}
	if got := g.routes("lin01", fib.Protocol); len(got) > 0 {
		t.Fatalf("routes before the nodes are known: %v", got)
	}

	g.nodes.set(guideNodes()...)
	for _, k := range g.keepers {
		k.Changed()
	}
	for _, h := range guide {
		g.within(h.name+" has both routes", func() bool { return len(g.routes(h.name, fib.Protocol)) == 2 })
		g.within(h.name+" reports so", func() bool { return g.keepers[h.name].Status().Complete() })
	}

	for _, step := range []struct {
		name string
		do   func()
	}{
		{"all nine paths carry packets", g.packets},
		{"a route deleted by somebody else", g.deleted},
		{"a route overwritten with a wrong next hop", g.overwritten},
		{"link down and up", g.linkDown},
		{"routes of others stay", g.foreign},
		{"unknown is not absent", g.unknown},
		{"two nodes claim one range", g.twice},
	} {
		t.Run(step.name, func(t *testing.T) {
			g.t = t
			step.do()
		})
	}
}

func (g *guideTest) packets() {
	for from := range guide {
		for to := range guide {
			if err := g.carries(from, to); err != nil {
				g.t.Errorf("%s to %s: %v", guide[from].pod, guide[to].pod, err)
			}
		}
	}
}

func (g *guideTest) deleted() {
	for _, h := range guide {
		for dst := range g.routes(h.name, fib.Protocol) {
			_, d, _ := net.ParseCIDR(dst)
			g.in(g.path[h.name], func() error { return netlink.RouteDel(&netlink.Route{Dst: d}) })
			took := g.within(h.name+" has it again", func() bool { return len(g.routes(h.name, fib.Protocol)) == 2 })
			g.t.Logf("%s: %s was back after %v", h.name, dst, took.Round(time.Millisecond))
		}
		// A pass changes the host first and its status after that.
		g.within(h.name+" counts two repairs", func() bool { return g.keepers[h.name].Status().Repairs >= 2 })
	}
}

func (g *guideTest) overwritten() {
	_, d, _ := net.ParseCIDR("192.168.1.0/24")
	g.in(g.path["lin01"], func() error {
		return netlink.RouteReplace(&netlink.Route{Dst: d, Gw: net.ParseIP("10.0.0.99")})
	})
	g.within("the right next hop is back", func() bool { return g.routes("lin01", 0)["192.168.1.0/24"] == "10.0.0.21" })
}

func (g *guideTest) linkDown() {
	for _, set := range []func(netlink.Link) error{netlink.LinkSetDown, netlink.LinkSetUp} {
		g.in(g.path["win01"], func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return set(link)
		})
	}
	g.within("routes are back", func() bool { return len(g.routes("win01", fib.Protocol)) == 2 })
}

func (g *guideTest) foreign() {
	_, d, _ := net.ParseCIDR("192.168.77.0/24")
	g.in(g.path["lin01"], func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: d, Gw: net.ParseIP("10.0.0.21"), Protocol: unix.RTPROT_STATIC})
	})
	g.nodes.set(guideNodes()[:2]...)
	g.keepers["lin01"].Changed()
	g.within("the deleted node's route is gone", func() bool { return g.routes("lin01", 0)["192.168.2.0/24"] == "" })
	if g.routes("lin01", 0)["192.168.77.0/24"] == "" {
		g.t.Error("somebody else's route was deleted")
	}
}

func (g *guideTest) unknown() {
	g.nodes.set()
	g.keepers["lin01"].Sync(context.Background())
	if st := g.keepers["lin01"].Status(); st.Complete() || st.Error == "" {
		g.t.Errorf("status without known nodes: %+v", st)
	}
	if g.routes("lin01", fib.Protocol)["192.168.1.0/24"] == "" {
		g.t.Error("the route went although the nodes are only unknown")
	}
}

func (g *guideTest) twice() {
	nodes := guideNodes()
	nodes[2].PodCIDRs = nodes[1].PodCIDRs
	g.nodes.set(nodes...)
	g.keepers["lin01"].Changed()
	only := nodes[1].Addr.String() // it is the first by name, and its route was there
	g.within("the first has its route, and the other none", func() bool {
		routes := g.routes("lin01", fib.Protocol)
		return len(routes) == 1 && strings.Contains(routes[nodes[1].PodCIDRs[0].String()], only)
	})
}

func TestRoutesStayAtTheEnd(t *testing.T) {
	s := newSegment(t)
	nodes := &nodeList{}
	nodes.set(guideNodes()...)
	t.Run("run", func(t *testing.T) {
		s.t = t
		s.keep("lin01", "10.0.0.11", nodes)
		s.within("routes are there", func() bool { return len(s.routes("lin01", fib.Protocol)) == 2 })
	})
	if got := s.routes("lin01", fib.Protocol); len(got) != 2 {
		t.Errorf("after the end: %v, want both routes", got)
	}
}

func TestNoSuchAddress(t *testing.T) {
	s := newSegment(t)
	nodes := &nodeList{}
	nodes.set(guideNodes()...)
	k := s.keep("lin01", "10.0.0.77", nodes)
	s.within("the status gives the reason", func() bool {
		return k.Status().Error == "no interface of this host has the node's address 10.0.0.77"
	})
}
