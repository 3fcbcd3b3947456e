package vxlan

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

type keeper = keep.Keeper[Kernel, Op]

// Three nodes, the last on a segment of its own behind a router, each with a pod address of its range on lo.
var hosts = []struct{ name, addr, gateway, pods, pod string }{
	{"lin01", "10.0.0.11", "10.0.0.1", "10.244.1.0/24", "10.244.1.10"},
	{"lin02", "10.0.0.12", "10.0.0.1", "10.244.2.0/24", "10.244.2.10"},
	{"lin03", "10.0.1.13", "10.0.1.1", "10.244.3.0/24", "10.244.3.10"},
}

// cluster is the API server's list of nodes, as far as this mode sees it.
type cluster struct {
	mu      sync.Mutex
	nodes   map[string]table.Node
	writes  int
	changed []func()
}

func newCluster() *cluster {
	c := &cluster{nodes: map[string]table.Node{}}
	for _, h := range hosts {
		c.nodes[h.name] = table.Node{Name: h.name, Addr: netip.MustParseAddr(h.addr),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix(h.pods)}}
	}
	return c
}

func (c *cluster) list() ([]table.Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.nodes)), true
}

// change changes one node, or deletes it if f is nil, and tells everybody.
func (c *cluster) change(name string, f func(*table.Node)) {
	c.mu.Lock()
	n := c.nodes[name]
	delete(c.nodes, name)
	if f != nil {
		f(&n)
		c.nodes[n.Name] = n
	}
	told := slices.Clone(c.changed)
	c.mu.Unlock()
	for _, changed := range told {
		changed()
	}
}

func (c *cluster) annotate(name string) func(context.Context, map[string]string) error {
	return func(_ context.Context, annotations map[string]string) error {
		c.change(name, func(n *table.Node) {
			c.writes++
			all := maps.Clone(n.Annotations)
			if all == nil {
				all = map[string]string{}
			}
			maps.Copy(all, annotations)
			n.Annotations = all
		})
		return nil
	}
}

func (c *cluster) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// underlay is the nodes' hosts with the router between them.
type underlay struct {
	*testing.T
	*cluster
	spaces  map[string]*netspace.Space
	keepers map[string]*keeper
	modes   map[string]*Mode // that run
	stop    map[string]func()
	router  *netspace.Space
	all     *testing.T // the test, while T is a part of it
}

func newUnderlay(t *testing.T) *underlay {
	u := &underlay{T: t, cluster: newCluster(), spaces: map[string]*netspace.Space{}, keepers: map[string]*keeper{},
		stop: map[string]func(){}, modes: map[string]*Mode{}, all: t}
	router := netspace.New(t, "router")
	u.router = router
	var ports []string
	for _, h := range hosts {
		s := netspace.New(t, h.name)
		s.Connect("eth0", router, h.name)
		s.Address("eth0", h.addr+"/24")
		s.Address("lo", h.pod+"/32")
		s.Forward()
		s.Route("0.0.0.0/0", h.gateway)
		u.spaces[h.name] = s
		if h.gateway == "10.0.0.1" {
			ports = append(ports, h.name)
		}
	}

	router.Bridge("sw0", ports...)
	router.Address("sw0", "10.0.0.1/24")
	router.Address("lin03", "10.0.1.1/24")
	router.Forward()
	return u
}

func (u *underlay) options(name string) Options {
	for _, h := range hosts {
		if h.name == name {
			return Options{Node: h.name, Addr: netip.MustParseAddr(h.addr), Config: Default,
				Cluster: netip.MustParsePrefix("10.244.0.0/16"), Annotate: u.annotate(h.name)}
		}
	}
	panic("no host " + name)
}

func (u *underlay) mode(name string) *Mode {
	u.Helper()
	m, err := newIn(u.spaces[name].Path, u.options(name))
	if err != nil {
		u.Fatal(err)
	}
	u.all.Cleanup(m.kernel.Close)
	return m
}

// keep runs the mode on a host until its stop is called.
func (u *underlay) keep(name string) {
	u.Helper()
	u.modes[name] = u.mode(name)
	k := keep.New(u.modes[name], keep.Options{Nodes: u.list, Period: 30 * time.Second})
	u.mu.Lock()
	u.changed = append(u.changed, k.Changed)
	u.mu.Unlock()
	u.keepers[name] = k
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.Run(ctx) })
	u.stop[name] = func() { cancel(); done.Wait() }
	u.all.Cleanup(u.stop[name])
}

// on changes a host as somebody else would.
func (u *underlay) on(name string, f func(dev netlink.Link) error) {
	u.Helper()
	u.spaces[name].Do(func() error {
		dev, err := netlink.LinkByName("flannel.4096")
		if err != nil {
			return err
		}
		return f(dev)
	})
}

// entries returns what a host has: the device, and one line for each neighbour, forwarding entry and route of it.
func (u *underlay) entries(name string) (list []string) {
	u.Helper()
	seen, err := u.mode(name).Observe(context.Background())
	if err != nil {
		u.Fatal(err)
	}
	d := seen.Device
	list = append(list, fmt.Sprintf("device vni %d port %d local %s mtu %d up %v learning %v addresses %v", d.VNI,
		d.Port, d.Local, d.MTU, d.Up, d.Learning, d.Addrs))
	for _, n := range seen.Neighbours {
		list = append(list, fmt.Sprintf("neighbour %s %s %v", n.Addr, n.MAC, n.Permanent))
	}
	for _, f := range seen.Forwards {
		list = append(list, fmt.Sprintf("forward %s to %s %v", f.MAC, f.Public, f.Permanent))
	}
	for _, r := range seen.Routes {
		list = append(list, fmt.Sprintf("route %s via %s ours %v device %v", r.Dst, r.Via, r.Ours, r.OnDevice))
	}
	slices.Sort(list)
	return list
}

// right waits until a host has exactly these entries, for at most the 2 s in which everything must be right again.
func (u *underlay) right(name, what string, want []string) {
	u.Helper()
	var have []string
	defer func() {
		if u.Failed() {
			u.Logf("%s: has\n%s\nwant\n%s", name, strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
	}()
	wait.True(u.T, 2*time.Second, name+" is right after: "+what, func() bool {
		have = u.entries(name)
		return slices.Equal(have, want)
	})
}

// complete waits until every node reaches every other.
func (u *underlay) complete() {
	u.Helper()
	for name, k := range u.keepers {
		wait.True(u.T, 5*time.Second, name+" has all routes",
			func() bool { s := k.Status(); return s.Complete() && s.Wanted == len(u.nodes)-1 })
	}
}

// carries sends a datagram from one pod address to another and waits for the echo.
func (u *underlay) carries(from, to int) error {
	end := func(i int) netspace.End { return netspace.End{Netns: u.spaces[hosts[i].name].Path, Addr: hosts[i].pod} }
	return netspace.Exchange(u.T, end(from), end(to), 1400)
}

func (u *underlay) packets() {
	u.Helper()
	for from := range hosts {
		for to := range hosts {
			if err := u.carries(from, to); err != nil {
				u.Errorf("%s to %s: %v", hosts[from].pod, hosts[to].pod, err)
			}
		}
	}
}

func TestThreeNodes(t *testing.T) {
	u := newUnderlay(t)
	for _, h := range hosts {
		u.keep(h.name)
	}
	u.complete()
	u.packets()

	for _, step := range []struct {
		name string
		do   func()
	}{
		{"what somebody deletes or changes is put back", u.repairs},
		{"entries of others stay", u.foreign},
		{"a node gets another MAC address", u.otherMAC},
		{"a node is deleted and comes back", u.deleted},
		{"the MTU of the underlay changes", u.otherMTU},
		{"a network with a smaller MTU on the way is named", u.narrow},
		{"another VNI is refused by name", u.otherVNI},
		{"the agent starts again", u.restart},
	} {
		t.Run(step.name, func(t *testing.T) {
			defer func() { u.T = u.all }()
			u.T = t
			step.do()
		})
	}
}

func (u *underlay) repairs() {
	const name = "lin01"
	want := u.entries(name)
	if len(want) != 7 {
		u.Fatalf("a node with two peers has %q", want)
	}
	peer, wrong := netip.MustParseAddr("10.244.2.0"), MAC{2, 2, 2, 2, 2, 2}
	_, dst, _ := net.ParseCIDR("10.244.2.0/24")
	var mac MAC
	u.on(name, func(dev netlink.Link) error {
		list, err := netlink.NeighList(dev.Attrs().Index, unix.AF_INET)
		for _, n := range list {
			if n.IP.String() == peer.String() {
				mac = macOf(n.HardwareAddr)
			}
		}
		return err
	})

	index := func(dev netlink.Link) int { return dev.Attrs().Index }
	steps := map[string]func(netlink.Link) error{
		"neighbour deleted": func(d netlink.Link) error {
			return netlink.NeighDel(neighbour(index(d), Neighbour{Addr: peer}))
		},
		"neighbour changed": func(d netlink.Link) error {
			return netlink.NeighSet(neighbour(index(d), Neighbour{Addr: peer, MAC: wrong}))
		},
		"forwarding deleted": func(d netlink.Link) error {
			return netlink.NeighDel(forward(index(d), Forward{MAC: mac, Public: netip.MustParseAddr("10.0.0.12")}))
		},
		"forwarding changed": func(d netlink.Link) error {
			return netlink.NeighSet(forward(index(d), Forward{MAC: mac, Public: netip.MustParseAddr("10.0.0.99")}))
		},
		"forwarding is added": func(d netlink.Link) error {
			return netlink.NeighSet(forward(index(d), Forward{MAC: wrong, Public: netip.MustParseAddr("10.0.0.99")}))
		},
		"route deleted": func(netlink.Link) error { return netlink.RouteDel(&netlink.Route{Dst: dst}) },
		"route changed": func(netlink.Link) error {
			return netlink.RouteReplace(&netlink.Route{Dst: dst, Gw: net.IPv4(10, 0, 0, 99)})
		},
		"address deleted": func(d netlink.Link) error {
			return netlink.AddrDel(d, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("10.244.1.0/32"))})
		},
		"MTU changed":    func(d netlink.Link) error { return netlink.LinkSetMTU(d, 1300) },
		"device down":    netlink.LinkSetDown,
		"device deleted": netlink.LinkDel,
	}
	for what, do := range steps {
		u.on(name, do)
		u.right(name, what, want)
		if err := u.carries(0, 1); err != nil {
			u.Errorf("%s: %v", what, err)
		}
	}
}

func (u *underlay) foreign() {
	const name = "lin01"
	before := u.entries(name)
	gateway, mac := netip.MustParseAddr("192.0.2.1"), MAC{2, 9, 9, 9, 9, 9}
	_, outside, _ := net.ParseCIDR("192.0.2.0/24")
	_, inside, _ := net.ParseCIDR("10.244.77.0/24")
	_, narrow, _ := net.ParseCIDR("10.244.2.128/25")
	u.on(name, func(dev netlink.Link) error {
		for _, err := range []error{
			netlink.NeighSet(neighbour(dev.Attrs().Index, Neighbour{Addr: gateway, MAC: mac})),
			netlink.NeighSet(forward(dev.Attrs().Index, Forward{MAC: mac, Public: netip.MustParseAddr("10.0.0.99")})),
			netlink.RouteAdd(&netlink.Route{Dst: outside, Gw: gateway.AsSlice(), LinkIndex: dev.Attrs().Index,
				Flags: int(netlink.FLAG_ONLINK), Protocol: unix.RTPROT_STATIC}),
			netlink.RouteAdd(&netlink.Route{Dst: inside, Gw: net.IPv4(10, 0, 0, 12), Protocol: unix.RTPROT_STATIC}),
			netlink.RouteAdd(&netlink.Route{Dst: narrow, Gw: net.IPv4(10, 0, 0, 12), Protocol: unix.RTPROT_STATIC}),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})

	want := u.entries(name)
	if len(want) != len(before)+4 { // the route to outside is not looked at
		u.Fatalf("with entries of others: %q", want)
	}
	u.keepers[name].Sync(u.Context())
	u.on(name, netlink.LinkSetUp)
	u.right(name, "entries of others", want)
	u.on(name, func(dev netlink.Link) error {
		for _, dst := range []*net.IPNet{outside, inside, narrow} {
			if err := netlink.RouteDel(&netlink.Route{Dst: dst}); err != nil {
				return err
			}
		}
		return netlink.NeighDel(neighbour(dev.Attrs().Index, Neighbour{Addr: gateway}))
	})
	u.right(name, "others have gone", before) // their forwarding entry belongs to nobody now
}

// otherMAC changes the device of lin02. It announces that, and the others follow and keep nothing of the old address.
func (u *underlay) otherMAC() {
	mac := MAC{2, 0xab, 0, 0, 0, 2}
	u.on("lin02", func(dev netlink.Link) error { return netlink.LinkSetHardwareAddr(dev, mac[:]) })
	for _, name := range []string{"lin01", "lin03"} {
		wait.True(u.T, 2*time.Second, name+" follows", func() bool {
			text := strings.Join(u.entries(name), "\n")
			return strings.Contains(text, "neighbour 10.244.2.0 "+mac.String()) &&
				strings.Contains(text, "forward "+mac.String()) && strings.Count(text, "forward") == 2
		})
	}
	u.complete()
	u.packets()
}

func (u *underlay) deleted() {
	before, lin03 := u.entries("lin01"), table.Node{}
	u.change("lin03", func(n *table.Node) { lin03 = *n })
	u.change("lin03", nil)
	for _, name := range []string{"lin01", "lin02"} {
		wait.True(u.T, 2*time.Second, name+" has nothing of it", func() bool { return len(u.entries(name)) == 4 })
	}
	u.change("lin03", func(n *table.Node) { *n = lin03 })
	u.right("lin01", "the node is back", before)
}

func (u *underlay) otherMTU() {
	before := u.entries("lin01")
	set := func(mtu int) func(netlink.Link) error {
		return func(netlink.Link) error {
			up, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(up, mtu)
		}
	}
	u.on("lin01", set(1400))
	wait.True(u.T, 2*time.Second, "the device follows",
		func() bool { return strings.Contains(strings.Join(u.entries("lin01"), "\n"), "mtu 1350") })
	u.on("lin01", set(1500))
	u.right("lin01", "the MTU is back", before)
}

// narrow: large packets to lin03 are lost on the way, without a word.
func (u *underlay) narrow() {
	reason := func() string {
		for _, r := range u.keepers["lin01"].Status().Routes {
			if r.Node == "lin03" {
				return r.Reason
			}
		}
		return ""
	}
	set := func(mtu int) {
		for side, name := range map[*netspace.Space]string{u.router: "lin03", u.spaces["lin03"]: "eth0"} {
			side.Do(func() error {
				link, err := netlink.LinkByName(name)
				if err != nil {
					return err
				}
				return netlink.LinkSetMTU(link, mtu)
			})
		}
	}
	again := func() { // as after ten minutes
		p := u.modes["lin01"].paths
		p.mu.Lock()
		clear(p.nodes)
		p.mu.Unlock()
		u.keepers["lin01"].Changed()
	}

	if r := reason(); r != "" {
		u.Errorf("before: %s", r)
	}
	set(1411)
	again()
	wait.True(u.T, 10*time.Second, "lin01 names the way", func() bool {
		return strings.Contains(reason(), "to node lin03 (10.0.1.13) of more than 1411 bytes get lost")
	})
	set(1500)
	again()
	wait.True(u.T, 10*time.Second, "lin01 takes it back", func() bool { return reason() == "" })
	u.complete()
}

// otherVNI: a node with flannel's default VNI gets no entries until it has ours.
func (u *underlay) otherVNI() {
	before := u.entries("lin01")
	u.stop["lin02"]()
	u.change("lin02", func(n *table.Node) {
		n.Annotations = maps.Clone(n.Annotations)
		n.Annotations[AnnotationBackendData] = `{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}`
	})
	wait.True(u.T, 2*time.Second, "lin01 has nothing of lin02", func() bool { return len(u.entries("lin01")) == 4 })
	wait.True(u.T, 2*time.Second, "lin01 says why", func() bool {
		return strings.HasPrefix(u.keepers["lin01"].Status().Routes[0].Reason,
			"node lin02 announces VNI 1, this node has 4096")
	})

	u.keep("lin02")
	u.right("lin01", "lin02 announces our VNI again", before)
	u.complete()
}

// restart: nothing is written, and no packet is lost.
func (u *underlay) restart() {
	before, writes := u.entries("lin01"), u.written()
	fresh := u.mode("lin01")
	seen, err := fresh.Observe(u.Context())
	if err != nil {
		u.Fatal(err)
	}
	nodes, _ := u.list()
	if plan := fresh.Plan(nodes, seen); len(plan.Ops) > 0 {
		u.Errorf("a new agent would change\n%s", plan)
	}
	u.right("lin01", "start", before)
	if u.written() != writes {
		u.Error("annotations were written again")
	}
}
