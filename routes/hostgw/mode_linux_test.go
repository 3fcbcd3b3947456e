package hostgw

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

type keeper = keep.Keeper[Seen, table.Change]

// The example of the first Kubernetes guide for Windows nodes, as real hosts: each a namespace, joined by one switch,
// each with one pod address of its range.
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
		nodes = append(nodes, table.Node{Name: h.name, Addr: netip.MustParseAddr(h.addr), PodCIDRs: []netip.Prefix{netip.MustParsePrefix(h.pods)}})
	}
	return nodes
}

// segment is the guide's hosts on one switch.
type segment struct {
	t    *testing.T
	path map[string]string // of each host's namespace
}

func newSegment(t *testing.T) *segment {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	s := &segment{t: t, path: map[string]string{}}
	prefix := fmt.Sprintf("hgw%d", os.Getpid()%10000)
	sw := s.namespace("sw", prefix)
	s.in(sw, func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		bridge.Name = "sw0"
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("0"), 0o644)
		return netlink.LinkSetUp(bridge)
	})
	for _, h := range guide {
		ns := s.namespace(h.name, prefix)
		s.join(sw, ns, h.name, h.addr+"/24", h.pod+"/32")
	}
	return s
}

func (s *segment) namespace(host, prefix string) string {
	s.t.Helper()
	name := prefix + "-" + host
	if err := platform.CreateNetns(name); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := platform.DeleteNetns(name); err != nil {
			s.t.Error(err)
		}
	})
	s.path[host] = platform.NetnsPath(name)
	return s.path[host]
}

// join links a host to the switch. Its pod address stands on lo: who reaches it has found the right host.
func (s *segment) join(sw, host, port, addr, pod string) {
	s.t.Helper()
	target, err := netns.GetFromPath(host)
	if err != nil {
		s.t.Fatal(err)
	}
	defer target.Close()
	s.in(sw, func() error {
		bridge, err := netlink.LinkByName("sw0")
		if err != nil {
			return err
		}
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0", PeerNamespace: netlink.NsFd(target)}
		veth.Name, veth.MasterIndex = port, bridge.Attrs().Index
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		return netlink.LinkSetUp(veth)
	})
	s.in(host, func() error {
		for link, text := range map[string]string{"eth0": addr, "lo": pod} {
			l, err := netlink.LinkByName(link)
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
			if err := netlink.LinkSetUp(l); err != nil {
				return err
			}
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	})
}

func (s *segment) in(path string, f func() error) {
	s.t.Helper()
	if err := platform.InNetns(path, f); err != nil {
		s.t.Fatal(err)
	}
}

// keep runs a keeper on one host until the test ends.
func (s *segment) keep(host, addr string, nodes *nodeList) *keeper {
	s.t.Helper()
	ns, err := netns.GetFromPath(s.path[host])
	if err != nil {
		s.t.Fatal(err)
	}
	tab, err := newTableIn(ns, netip.MustParseAddr(addr), clusterRange)
	if err != nil {
		s.t.Fatal(err)
	}
	k := keep.New(New(host, tab), keep.Options{Nodes: nodes.Routable})
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.Run(ctx) })
	s.t.Cleanup(func() { stop(); done.Wait(); tab.kernel.Close(); ns.Close() })
	return k
}

// routes lists dst→next hop of the given protocol, 0 for all, in the host's main table.
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

// within waits until ok, at most the 2 s in which a route must be right again.
func (s *segment) within(what string, ok func() bool) time.Duration {
	s.t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > 2*time.Second {
			s.t.Fatalf("not within 2 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// carries sends a datagram from one pod address to another and waits for the echo.
func (s *segment) carries(from, to int) error {
	var server net.PacketConn
	err := platform.InNetns(s.path[guide[to].name], func() (err error) {
		server, err = net.ListenPacket("udp4", guide[to].pod+":7")
		return err
	})
	if err != nil {
		return err
	}
	defer server.Close()
	go func() {
		buf := make([]byte, 64)
		if n, peer, err := server.ReadFrom(buf); err == nil {
			server.WriteTo(buf[:n], peer)
		}
	}()
	var client net.Conn
	err = platform.InNetns(s.path[guide[from].name], func() (err error) {
		local := &net.UDPAddr{IP: net.ParseIP(guide[from].pod)}
		client, err = net.DialUDP("udp4", local, &net.UDPAddr{IP: net.ParseIP(guide[to].pod), Port: 7})
		return err
	})
	if err != nil {
		return err
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := client.Write([]byte("ping")); err != nil {
		return err
	}
	_, err = client.Read(make([]byte, 64))
	return err
}

func TestGuide(t *testing.T) {
	s := newSegment(t)
	nodes := &nodeList{}
	keepers := map[string]*keeper{}
	for _, h := range guide {
		keepers[h.name] = s.keep(h.name, h.addr, nodes)
	}
	if got := s.routes("lin01", Protocol); len(got) > 0 {
		t.Fatalf("routes before the nodes are known: %v", got)
	}
	nodes.set(guideNodes()...)
	for _, k := range keepers {
		k.Changed()
	}
	for _, h := range guide {
		s.within(h.name+" has both routes", func() bool { return len(s.routes(h.name, Protocol)) == 2 })
		s.within(h.name+" says so", func() bool { return keepers[h.name].Status().Complete() })
	}
	t.Run("all nine paths carry packets", func(t *testing.T) {
		for from := range guide {
			for to := range guide {
				if err := s.carries(from, to); err != nil {
					t.Errorf("%s to %s: %v", guide[from].pod, guide[to].pod, err)
				}
			}
		}
	})
	t.Run("deleted behind our back", func(t *testing.T) {
		for _, h := range guide {
			s.t = t
			for dst := range s.routes(h.name, Protocol) {
				_, d, _ := net.ParseCIDR(dst)
				s.in(s.path[h.name], func() error { return netlink.RouteDel(&netlink.Route{Dst: d}) })
				took := s.within(h.name+" has it again", func() bool { return len(s.routes(h.name, Protocol)) == 2 })
				t.Logf("%s: %s was back after %v", h.name, dst, took.Round(time.Millisecond))
			}
			if n := keepers[h.name].Status().Repairs; n < 2 {
				t.Errorf("%s counts %d repairs, want 2", h.name, n)
			}
		}
	})
	t.Run("overwritten with a wrong next hop", func(t *testing.T) {
		s.t = t
		_, d, _ := net.ParseCIDR("192.168.1.0/24")
		s.in(s.path["lin01"], func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: d, Gw: net.ParseIP("10.0.0.99")})
		})
		s.within("the right next hop is back", func() bool { return s.routes("lin01", 0)["192.168.1.0/24"] == "10.0.0.21" })
	})
	t.Run("link down and up", func(t *testing.T) {
		s.t = t
		for _, set := range []func(netlink.Link) error{netlink.LinkSetDown, netlink.LinkSetUp} {
			s.in(s.path["win01"], func() error {
				link, err := netlink.LinkByName("eth0")
				if err != nil {
					return err
				}
				return set(link)
			})
		}
		s.within("routes are back", func() bool { return len(s.routes("win01", Protocol)) == 2 })
	})
	t.Run("foreign routes stay", func(t *testing.T) {
		s.t = t
		_, d, _ := net.ParseCIDR("192.168.77.0/24")
		s.in(s.path["lin01"], func() error {
			return netlink.RouteAdd(&netlink.Route{Dst: d, Gw: net.ParseIP("10.0.0.21"), Protocol: unix.RTPROT_STATIC})
		})
		nodes.set(guideNodes()[:2]...)
		keepers["lin01"].Changed()
		s.within("the deleted node's route is gone", func() bool { return s.routes("lin01", 0)["192.168.2.0/24"] == "" })
		if s.routes("lin01", 0)["192.168.77.0/24"] == "" {
			t.Error("somebody else's route was deleted")
		}
	})
	t.Run("unknown is not absent", func(t *testing.T) {
		s.t = t
		nodes.set()
		keepers["lin01"].Sync(context.Background())
		if st := keepers["lin01"].Status(); st.Complete() || st.Error == "" {
			t.Errorf("status without known nodes: %+v", st)
		}
		if s.routes("lin01", Protocol)["192.168.1.0/24"] == "" {
			t.Error("the route went although the nodes are only unknown")
		}
	})
	t.Run("two nodes claim one range", func(t *testing.T) {
		s.t = t
		twice := guideNodes()
		twice[2].PodCIDRs = twice[1].PodCIDRs
		nodes.set(twice...)
		keepers["lin01"].Changed()
		s.within("neither has a route", func() bool { return len(s.routes("lin01", Protocol)) == 0 })
	})
}

func TestRoutesStayAtTheEnd(t *testing.T) {
	s := newSegment(t)
	nodes := &nodeList{}
	nodes.set(guideNodes()...)
	t.Run("run", func(t *testing.T) {
		s.t = t
		s.keep("lin01", "10.0.0.11", nodes)
		s.within("routes are there", func() bool { return len(s.routes("lin01", Protocol)) == 2 })
	})
	if got := s.routes("lin01", Protocol); len(got) != 2 {
		t.Errorf("after the end: %v, want both routes", got)
	}
}

func TestNoSuchAddress(t *testing.T) {
	s := newSegment(t)
	nodes := &nodeList{}
	nodes.set(guideNodes()...)
	k := s.keep("lin01", "10.0.0.77", nodes)
	s.within("the status says why", func() bool {
		return k.Status().Error == "no interface of this host has the node's address 10.0.0.77"
	})
}
