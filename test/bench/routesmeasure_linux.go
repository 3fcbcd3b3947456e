package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// atSize starts both agents in a cluster with that many other nodes and measures; added, if not nil, adds nodes meanwhile.
func (b *routesBench) atSize(ctx context.Context, mode string, count int, added func(context.Context, string, []*routesSide) error) error {
	sides := []*routesSide{{name: "ours", addr: "10.99.0.11", number: 6000}, {name: "flan", addr: "10.99.0.12", number: 6001}}
	if err := b.fill(ctx, mode, sides, count); err != nil {
		return err
	}
	var took []float64
	for _, s := range sides {
		seconds, err := b.first(ctx, s, mode, count+1)
		if err != nil {
			return err
		}
		took = append(took, seconds)
		defer close(s.routes.done)
		defer end(s.cmd)
	}

	if added != nil {
		return added(ctx, mode, sides)
	}
	print(figure{Name: fmt.Sprintf("routes.%s.start.%d", mode, count), Unit: "s", Ours: took[0], Peer: took[1], PeerIs: "flanneld",
		Ratio: round(took[0] / took[1]), Target: 3, Note: "from the start of the agent to the last route"})
	return b.cost(ctx, mode, count, sides)
}

// first starts an agent on a host without routes and returns after how many seconds it has that many.
func (b *routesBench) first(ctx context.Context, s *routesSide, mode string, count int) (seconds float64, err error) {
	if err := b.clean(s.name); err != nil {
		return 0, err
	}
	if s.routes, err = b.watchRoutes(s.name); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := b.agent(s, mode); err != nil {
		return 0, err
	}
	err = wait.For(ctx, 3*time.Minute, s.name+" to have all routes", func(context.Context) error {
		if have, _ := s.routes.last(); have < count {
			return fmt.Errorf("%d of %d routes", have, count)
		}
		return nil
	})
	_, at := s.routes.last()
	return round(at.Sub(begin).Seconds()), err
}

// clean removes what agents made on a host.
func (b *routesBench) clean(host string) error {
	return platform.InNetns(platform.NetnsPath(b.netns(host)), func() error {
		if dev, err := netlink.LinkByName("flannel.4096"); err == nil {
			if err := netlink.LinkDel(dev); err != nil {
				return err
			}
		}
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for i := range routes {
			if routes[i].Gw != nil {
				err = errors.Join(err, netlink.RouteDel(&routes[i]))
			}
		}
		return err
	})
}

// addNodes adds nodes one after the other, and measures how long after the event of the API server each side has the route.
func (b *routesBench) addNodes(ctx context.Context, mode string, sides []*routesSide) error {
	events, err := b.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer events.Stop()

	samples := [2][]float64{}
	for i := range routesAdded {
		number := routesSmall + i
		name, dst := fmt.Sprintf("sim-%04d", number), podRange(number)
		if err := b.makeNode(ctx, name, simAddr(number), number, mode); err != nil {
			return err
		}
		seen, err := eventOf(events, name)
		if err != nil {
			return err
		}
		for j, s := range sides {
			var at time.Time
			err := wait.For(ctx, 30*time.Second, s.name+" to have the route", func(context.Context) (err error) {
				ok := false
				if at, ok = s.routes.of(dst); !ok {
					err = errors.New("not there")
				}
				return err
			})
			if err != nil {
				return err
			}
			samples[j] = append(samples[j], at.Sub(seen).Seconds()*1000)
		}
	}

	ours, peer := median(samples[0]), median(samples[1])
	print(figure{Name: fmt.Sprintf("routes.%s.added.%d", mode, routesSmall), Unit: "ms", Ours: ours, Peer: peer, PeerIs: "flanneld", Ratio: round(ours / peer),
		Target: 50, Note: "from the watch event of a node to its route", Samples: map[string][]float64{"ours": samples[0], "peer": samples[1]}})
	return nil
}

// eventOf returns when the event of a node came.
func eventOf(events watch.Interface, name string) (time.Time, error) {
	limit := time.After(30 * time.Second)
	for {
		select {
		case e, open := <-events.ResultChan():
			if !open {
				return time.Time{}, errors.New("the watch ended")
			}
			if o, is := e.Object.(metav1.Object); is && o.GetName() == name {
				return time.Now(), nil
			}
		case <-limit:
			return time.Time{}, fmt.Errorf("no event of node %s", name)
		}
	}
}

// cost measures what both agents use while nothing happens.
func (b *routesBench) cost(ctx context.Context, mode string, count int, sides []*routesSide) error {
	use := func() (mb, cpu [2]float64, err error) {
		for i, s := range sides {
			if mb[i], cpu[i], err = memoryAndCPU(s.cmd.Process.Pid); err != nil {
				return mb, cpu, err
			}
		}
		return mb, cpu, nil
	}
	pause := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}

	if err := pause(10 * time.Second); err != nil { // the work of the start
		return err
	}
	_, before, err := use()
	if err != nil {
		return err
	}
	if err := pause(routesIdle); err != nil {
		return err
	}
	mb, after, err := use()
	if err != nil {
		return err
	}

	share := func(i int) float64 { return (after[i] - before[i]) / routesIdle.Seconds() * 100 }
	print(figure{Name: fmt.Sprintf("routes.%s.rss.%d", mode, count), Unit: "MB", Ours: round(mb[0]), Peer: round(mb[1]), PeerIs: "flanneld", Ratio: round(mb[0] / mb[1]), Target: 40})
	print(figure{Name: fmt.Sprintf("routes.%s.idle.%d", mode, count), Unit: "%", Ours: share(0), Peer: share(1), PeerIs: "flanneld", Target: 0.1,
		Note: fmt.Sprintf("of one processor, over %s", routesIdle)})
	return nil
}

// What throughputs does.
const (
	flowRounds = 7
	flowBytes  = 512 << 20
)

// throughputs measures a TCP connection between pods on two nodes: over routes and a kernel VXLAN that are made by hand, and over those
// of our agent. All pass the same veths.
func (b *routesBench) throughputs(ctx context.Context) error {
	if err := b.makeHosts2(); err != nil {
		return err
	}
	ways := []struct {
		name, floor string
		make        func(context.Context) error
	}{
		{"bare", "", b.bareRoutes},
		{"host-gateway", "bare", func(ctx context.Context) error { return b.agents(ctx, "host-gateway") }},
		{"kernel-vxlan", "", b.bareVXLAN},
		{"vxlan", "kernel-vxlan", func(ctx context.Context) error { return b.agents(ctx, "vxlan") }},
	}

	samples := map[string][]float64{}
	for range flowRounds {
		for _, w := range ways {
			if err := errors.Join(b.clean("pa"), b.clean("pb")); err != nil {
				return err
			}
			if err := w.make(ctx); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			rate, err := b.flow(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			samples[w.name] = append(samples[w.name], rate)
			b.stopAgents()
		}
	}

	for _, w := range ways {
		if w.floor == "" {
			continue
		}
		ours, floor := median(samples[w.name]), median(samples[w.floor])
		good := ours >= 0.95*floor
		print(figure{Name: "routes." + w.name + ".throughput", Unit: "Gbit/s", Ours: ours, Floor: floor, OfFloor: round(ours / floor), OK: &good,
			Note:    "pod to pod across nodes, one TCP connection; the floor is " + w.floor + " made by hand; at least 0.95 of it",
			Samples: map[string][]float64{"ours": samples[w.name], "floor": samples[w.floor]}})
	}
	return nil
}

// Nodes and pods of throughputs.
var flowNodes = []struct {
	node, addr, pod, podAddr, gateway string
	number                            int
}{
	{"pa", "10.99.0.21", "a", "10.152.0.10", "10.152.0.1", 6144},
	{"pb", "10.99.0.22", "b", "10.152.1.10", "10.152.1.1", 6145},
}

// makeHosts2 makes the two nodes on the switch, each with a pod.
func (b *routesBench) makeHosts2() error {
	for _, n := range flowNodes {
		if err := b.makeNetns(b.netns(n.node)); err != nil {
			return err
		}
		if err := b.makeNetns(b.netns(n.pod)); err != nil {
			return err
		}
		if err := connect(b.netns(n.node), "eth0", netip.MustParsePrefix(n.addr+"/16"), b.netns("sw"), n.node); err != nil {
			return err
		}
		if err := connect(b.netns(n.pod), "eth0", netip.MustParsePrefix(n.podAddr+"/24"), b.netns(n.node), n.pod); err != nil {
			return err
		}
		err := errors.Join(
			platform.InNetns(platform.NetnsPath(b.netns("sw")), func() error {
				return errors.Join(platform.LinkUp(n.node), platform.JoinBridge(n.node, "sw0"))
			}),
			platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() error {
				return errors.Join(platform.SetAddress(n.pod, netip.MustParsePrefix(n.gateway+"/24")), platform.LinkUp(n.pod))
			}),
			platform.InNetns(platform.NetnsPath(b.netns(n.pod)), func() error {
				return errors.Join(platform.SetRoute(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr(n.gateway)), setMTU("eth0", 1450))
			}))
		if err != nil {
			return err
		}
	}
	return nil
}

// setMTU is for the calling thread's namespace. Pods have the MTU of VXLAN in every mode, so that only the way differs.
func setMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(link, mtu)
}

// bareRoutes makes the routes of host-gateway by hand.
func (b *routesBench) bareRoutes(context.Context) error {
	for i, n := range flowNodes {
		other := flowNodes[1-i]
		err := platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() error {
			return platform.SetRoute(netip.MustParsePrefix(podRange(other.number)), netip.MustParseAddr(other.addr))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bareVXLAN makes a VXLAN device of the kernel by hand. It is deleted by clean, as it has the name of the agents'.
func (b *routesBench) bareVXLAN(context.Context) error {
	mac := func(i int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 9, byte(i)} }
	for i, n := range flowNodes {
		other := flowNodes[1-i]
		far := net.ParseIP(other.gateway).To4()
		far[3] = 0
		_, dst, err := net.ParseCIDR(podRange(other.number))
		if err != nil {
			return err
		}
		err = platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			dev := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "flannel.4096", MTU: 1450, HardwareAddr: mac(i)}, VxlanId: 4096, Port: 4789,
				VtepDevIndex: eth0.Attrs().Index, SrcAddr: net.ParseIP(n.addr)}
			if err := errors.Join(netlink.LinkAdd(dev), netlink.LinkSetUp(dev)); err != nil {
				return err
			}
			index := dev.Attrs().Index
			return errors.Join(
				netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: far, HardwareAddr: mac(1 - i)}),
				netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: 7, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: net.ParseIP(other.addr), HardwareAddr: mac(1 - i)}),
				netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: dst, Gw: far, Flags: int(netlink.FLAG_ONLINK)}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// agents starts ours on both nodes and waits for packets.
func (b *routesBench) agents(ctx context.Context, mode string) error {
	if err := b.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	kubeconfig, err := b.kubeconfig()
	if err != nil {
		return err
	}
	for _, n := range flowNodes {
		if err := b.makeNode(ctx, n.node, n.addr, n.number, mode); err != nil {
			return err
		}
		cmd, err := b.start(n.node, n.node, nil, "porthole", "routes", "--kubeconfig="+kubeconfig, "--hostname-override="+n.node,
			"--mode="+mode, "--cluster-cidr=10.128.0.0/9", "--service-cidr=10.96.0.0/16")
		if err != nil {
			return err
		}
		b.running = append(b.running, cmd)
	}
	return nil
}

// stopAgents ends what agents started.
func (b *routesBench) stopAgents() {
	for _, cmd := range b.running {
		end(cmd)
	}
	b.running = nil
}

// flow sends bytes from one pod to the other as soon as it is reached, and returns Gbit/s.
func (b *routesBench) flow(ctx context.Context) (rate float64, err error) {
	var server net.Listener
	err = platform.InNetns(platform.NetnsPath(b.netns("b")), func() (err error) {
		server, err = net.Listen("tcp4", flowNodes[1].podAddr+":5001")
		return err
	})
	if err != nil {
		return 0, err
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			if n, _ := io.Copy(io.Discard, io.LimitReader(c, flowBytes)); n == flowBytes {
				_, _ = c.Write([]byte{1}) // a client that has gone needs no answer
			}
			c.Close()
		}
	}()

	var conn net.Conn
	err = wait.For(ctx, 20*time.Second, "the other pod", func(ctx context.Context) error {
		return platform.InNetns(platform.NetnsPath(b.netns("a")), func() (err error) {
			conn, err = net.DialTimeout("tcp4", flowNodes[1].podAddr+":5001", 300*time.Millisecond)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	block := slices.Repeat([]byte{0}, 256<<10)
	begin := time.Now()
	for range flowBytes / len(block) {
		if _, err := conn.Write(block); err != nil {
			return 0, err
		}
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return 0, err
	}
	return round(flowBytes * 8 / time.Since(begin).Seconds() / 1e9), nil
}
