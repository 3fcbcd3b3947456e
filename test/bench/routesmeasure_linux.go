package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// atSize starts both agents in a cluster with that many other nodes and measures; added, if not nil, adds nodes
// meanwhile.
// The sides run one beside the other, each on its own host; without --sides upstream there is ours
// only.
func (b *routesBench) atSize(ctx context.Context, mode string, count int,
	added func(context.Context, string, []*routesSide) error) error {
	sides := []*routesSide{{name: "ours", addr: "10.99.0.11", number: routesOurs},
		{name: "flan", addr: "10.99.0.12", number: routesPeer}}
	if err := b.fill(ctx, mode, sides, count); err != nil {
		return err
	}
	if mode == "bgp" {
		if err := b.reflector(ctx, count); err != nil {
			return err
		}
		defer b.endReflector()
	}
	// The Node object of the peer stays, so that ours has as many routes as with it.
	if !named(b.o.sides, peer) {
		sides = sides[:1]
	}
	var took [2]float64
	for i, s := range sides {
		seconds, err := b.first(ctx, s, mode, count+1)
		if err != nil {
			return err
		}
		took[i] = seconds
		defer close(s.routes.done)
		defer end(s.cmd)
	}

	if added != nil {
		return added(ctx, mode, sides)
	}
	print(figure{Name: fmt.Sprintf("routes.%s.start.%d", mode, count), Unit: "s", Ours: took[0], Peer: took[1],
		PeerIs: "flanneld",
		Ratio:  ratio(took[0], took[1]), Target: 3, Note: "from the start of the agent to the last route"})
	return b.cost(ctx, mode, count, sides)
}

// first starts an agent on a host without routes and returns after how many seconds it has that many.
// Routes are counted by the kernel's events. The time is that of the last one, not of the look that
// found it.
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
		// The devices are flannel's and the one of byHand; ours uses flannel's name for VNI 4096.
		for _, name := range []string{"flannel.4096", handDevice} {
			if dev, err := netlink.LinkByName(name); err == nil {
				if err := netlink.LinkDel(dev); err != nil {
					return err
				}
			}
		}
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for i := range routes {
			if routes[i].Gw != nil {
				err = errors.Join(err, netlink.RouteDel(&routes[i]))
			}
		}
		kernel := nftables.Conn{} // without the outbound NAT connections are not tracked, as on a bare host
		kernel.FlushRuleset()
		return errors.Join(err, kernel.Flush())
	})
}

// addNodes adds nodes one after the other, and measures how long after the event of the API server each side has the
// route.
// ResourceVersion 0 begins with what the API server has in its cache; events of older nodes are
// passed over.
func (b *routesBench) addNodes(ctx context.Context, mode string, sides []*routesSide) error {
	events, err := b.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer events.Stop()

	samples := [2][]float64{}
	alone := time.NewTicker(routesApart)
	defer alone.Stop()
	for i := range routesAdded {
		<-alone.C
		number := routesSmall + i
		name := fmt.Sprintf("sim-%04d", number)
		dst := podRange(number)
		if err := b.makeNode(ctx, name, simAddr(number), number, mode); err != nil {
			return err
		}
		seen, err := eventOf(events, name)
		if err != nil {
			return err
		}
		if mode == "bgp" { // the node's own agent announces it now
			seen = time.Now()
			if err := b.reflect(ctx, number+1); err != nil {
				return err
			}
		}
		// Both sides are waited for before the next node is added.
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

	ours := median(samples[0])
	peer := median(samples[1])
	note := "from the watch event of a node to its route"
	if mode == "bgp" {
		note = "from the configuration of the route reflector (BIRD) to the route"
	}
	print(figure{Name: fmt.Sprintf("routes.%s.added.%d", mode, routesSmall), Unit: "ms", Ours: ours, Peer: peer,
		PeerIs: peerOf(mode), Ratio: ratio(ours, peer),
		Target: 50, Note: note, Samples: map[string][]float64{"ours": samples[0], "peer": samples[1]}})
	if len(sides) > 1 {
		printLater(mode, samples)
	}
	return nil
}

// printLater prints by how much later ours has the route to a node than the peer. Both hear of the node at the same
// time, so that what delays both, above all the API server, is in none of the differences.
func printLater(mode string, samples [2][]float64) {
	var later []float64
	sooner := 0
	for i, at := range samples[0] {
		later = append(later, round(at-samples[1][i]))
		if at <= samples[1][i] {
			sooner++
		}
	}
	middle := median(later)
	print(figure{Name: fmt.Sprintf("routes.%s.later.%d", mode, routesSmall), Unit: "ms", Ours: middle,
		PeerIs: peerOf(mode),
		Note: fmt.Sprintf(
			"median of %d differences, half of them from %.2f to %.2f; ours is sooner for %d nodes", len(later),
			percentile(later, 0.25), percentile(later, 0.75), sooner), Samples: map[string][]float64{"later": later}})
}

// ratio returns 0 if the peer was not measured.
func ratio(ours, others float64) float64 {
	if others == 0 {
		return 0
	}
	return round(ours / others)
}

// eventOf returns when the event of a node came.
// Events of other nodes are dropped.
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
// Shares are in percent of one processor.
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

	file, err := fileMemory(sides[0].cmd.Process.Pid)
	if err != nil {
		return err
	}

	share := func(i int) float64 { return (after[i] - before[i]) / routesIdle.Seconds() * 100 }
	print(figure{Name: fmt.Sprintf("routes.%s.rss.%d", mode, count), Unit: "MB", Ours: round(mb[0]), Peer: round(mb[1]),
		PeerIs: "flanneld", Ratio: ratio(mb[0], mb[1]), Target: 40,
		Note: fmt.Sprintf("of ours %.0f MB are pages of the program's file", file)})
	print(figure{Name: fmt.Sprintf("routes.%s.idle.%d", mode, count), Unit: "%", Ours: share(0), Peer: share(1),
		PeerIs: "flanneld", Target: 0.1,
		Note: fmt.Sprintf("of one processor, over %s", routesIdle)})
	return nil
}
