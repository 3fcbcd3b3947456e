package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxy/lab"
)

// startResult is what one program did on one profile.
// Times are in seconds. What follows the first fill is measured on the same host.
type startResult struct {
	first       fill
	fills, bare []float64 // until all is there: of each fill, and of a program that only makes the objects
	// restart is the time until /healthz is good again.
	restart             float64
	calls, restartCalls serve.Stats
	outage              outage
	// change, changeCalls and changeFloor are of one endpoint that is added: time, calls, and the
	// time that HNS needs for the fewest calls that do it.
	change      []float64
	changeCalls []float64
	changeFloor float64
}

// starts measures start, restart and a change on each profile, with both programs in turn.
func (b *proxyBench) starts(ctx context.Context) error {
	for _, s := range scales {
		if !named(b.o.latencies, s.profile) {
			continue
		}
		// Hosts of one profile are made one after the other, each with the same objects.
		results := map[string]*startResult{}
		var floor float64
		for _, program := range programs {
			t, err := b.host(ctx, s.profile, program, s, true)
			if err != nil {
				return err
			}
			if floor, err = t.floor(); err != nil {
				return err
			}
			r, err := t.start(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			results[program] = r
			say("%s: all %.1f s, essential %.2f s, processor %.1f s, restart %.1f s", t.Name, r.first.all,
				r.first.essential, r.first.cpu, r.restart)
			if err := t.close(); err != nil {
				return err
			}
		}
		b.printStarts(s, floor, results["ours"], results["upstream"])
	}

	return nil
}

// start runs the program on an empty host, restarts it, and changes services under it.
func (t *bench) start(ctx context.Context) (*startResult, error) {
	var r startResult
	var err error
	if r.first, err = t.fill(ctx, t.run); err != nil {
		return nil, err
	}
	r.fills = []float64{r.first.all}
	defer func() { t.halt() }()
	// HNS must have exactly what the services imply, regardless of who created it.
	if err := t.Settled(ctx, time.Minute); err != nil {
		return nil, err
	}

	if r.calls, err = t.HNS.Stats(ctx); err != nil {
		return nil, err
	}
	if err := t.restart(ctx, &r); err != nil {
		return nil, err
	}
	err = t.changes(ctx, &r)
	// Changes of upstream's program that cannot be measured are no reason to lose its other
	// figures.
	if err != nil && t.program != "ours" {
		say("%s: its changes are not measured: %v", t.Name, err)
		err = nil
	}

	// Where HNS has no latency there is no sum of latencies to compare with, so the floor is
	// measured.
	if err == nil && t.program == "ours" && t.scale.profile == "none" {
		err = t.besideFloor(ctx, &r)
	}
	return &r, err
}

// fill is what it took, in seconds, to program an empty host.
type fill struct {
	essential, all float64 // until DNS and the API answer, until all is there
	cpu            float64 // processor time of the program
}

// fill starts a program on an empty host and watches until HNS has all that the services need. The program goes on.
func (t *bench) fill(ctx context.Context, run func() error) (f fill, err error) {
	if err := t.HNS.ResetStats(ctx); err != nil {
		return f, err
	}
	began := time.Now()
	if err := run(); err != nil {
		return f, err
	}
	// DNS and the API are asked by a pod while the other objects are made.
	essential := make(chan error, 1)
	go func() {
		err := t.answers(ctx, 20*time.Minute)
		f.essential = round(time.Since(began).Seconds())
		essential <- err
	}()
	err = t.made(ctx, 20*time.Minute)
	f.all = round(time.Since(began).Seconds())
	f.cpu = round(t.proxy.CPU())
	return f, errors.Join(err, <-essential)
}

// answers waits until DNS and the API answer a pod.
func (t *bench) answers(ctx context.Context, limit time.Duration) error {
	return wait.For(ctx, limit, "DNS and the API service on "+t.Name, func(context.Context) error {
		if _, err := t.near.Ask("udp", t.load.dns, 40*time.Millisecond); err != nil {
			return err
		}
		_, err := t.near.Ask("tcp", t.load.api, 40*time.Millisecond)
		return err
	})
}

// outage is what clients saw: connections that broke, and new ones that failed.
type outage struct {
	Open, Broken, New, Failed int
	// Longest is the time from the first to the last failure, in seconds.
	Longest float64
}

// restart ends the program and starts it again, with 100 connections open and 100 new ones per second.
// Connections that are open before must live on, since HNS keeps its load balancers while no
// program runs.
func (t *bench) restart(ctx context.Context, r *startResult) error {
	var open []*lab.Conn
	for i := range 100 {
		c, err := t.near.Open(t.live(i), 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		open = append(open, c)
	}

	if err := t.HNS.ResetStats(ctx); err != nil {
		return err
	}
	// Clients begin before the program ends, so that every moment without it is seen.
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var failures []time.Time
	var asked int
	clients.Go(func() { asked, failures = t.newConnections(stop) })
	t.halt()

	began := time.Now()
	err := t.run()
	if err == nil {
		err = t.healthy(ctx, 10*time.Minute)
		r.restart = round(time.Since(began).Seconds())
	}
	if err == nil && t.program != "ours" {
		err = t.made(ctx, 20*time.Minute) // it deletes all and makes them again
	}

	// The outage lasts until HNS has exactly what it should have.
	if err == nil {
		err = t.Settled(ctx, 5*time.Minute)
	}
	close(stop)
	clients.Wait()
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	r.outage = outage{Open: len(open), New: asked, Failed: len(failures)}

	if len(failures) > 0 {
		r.outage.Longest = round(failures[len(failures)-1].Sub(failures[0]).Seconds())
	}
	// Open connections are tried after everything is over: broken ones do not come back.
	for _, c := range open {
		if c.Echo(2*time.Second) != nil {
			r.outage.Broken++
		}
	}

	r.restartCalls, err = t.HNS.Stats(ctx)
	return err
}

// live is the address of a service whose backends answer.
func (t *bench) live(i int) netip.AddrPort {
	return lab.ClusterAddr(t.load.services[i%min(answering, t.scale.services)], 80)
}

// newConnections asks a hundred times a second until stop, and notes when it got no answer.
// A question without an answer within half a second has failed. The time noted is that of its
// start.
func (t *bench) newConnections(stop <-chan struct{}) (asked int, failures []time.Time) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var group sync.WaitGroup
	var mu sync.Mutex
	for ; ; asked++ {
		select {
		case <-stop:
			group.Wait()
			slices.SortFunc(failures, time.Time.Compare)
			return asked, failures
		case <-tick.C:
		}
		to, at := t.live(asked), time.Now()
		group.Go(func() {
			if _, err := t.near.Ask("tcp", to, 500*time.Millisecond); err != nil {
				mu.Lock()
				failures = append(failures, at)
				mu.Unlock()
			}
		})
	}
}

// healthy waits until /healthz of the proxy answers with 200.
func (t *bench) healthy(ctx context.Context, limit time.Duration) error {
	return wait.For(ctx, limit, "health of "+t.Name, func(ctx context.Context) error {
		status, body, err := t.Get(ctx, lab.HealthPort, "/healthz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %.200s", status, body)
		}
		return err
	})
}

// changes adds one endpoint to one service, several times, and counts calls and time until HNS has it.
func (t *bench) changes(ctx context.Context, r *startResult) error {
	l, err := latency.Of(t.scale.profile)
	if err != nil {
		return err
	}

	// If there are enough services, the endpoint goes to one that is neither asked nor local. It is
	// taken away again, so that every round begins in the same state.
	for n := range 3 {
		i := t.scale.services - localPods - 1 - n
		if i < answering {
			i = n % t.scale.services
		}
		// The address is one that no service of either program has had.
		addrs := append(slices.Clone(t.load.slots(i)), remote(20000+n+100*len(t.program)))
		before, err := t.quiet(ctx)
		if err != nil {
			return err
		}
		if err := t.load.slice(ctx, i, addrs); err != nil {
			return err
		}
		began := time.Now()
		if _, err := t.changed(ctx, before); err != nil {
			return err
		}
		r.change = append(r.change, round(time.Since(began).Seconds()))
		after, err := t.quiet(ctx)
		if err != nil {
			return err
		}
		r.changeCalls = append(r.changeCalls, float64(operations(after)-operations(before)))
		if err := t.load.slice(ctx, i, t.load.slots(i)); err != nil {
			return err
		}
		if _, err := t.changed(ctx, after); err != nil {
			return err
		}
		// Build 26100 can modify a load balancer; older ones delete it and make it again.
		cost := l.Cost("HcnCreateEndpoint", 0, 0)
		if t.scale.build == 26100 {
			cost += l.Cost("HcnModifyLoadBalancer", len(addrs), 0)
		} else {
			cost += l.Cost("HcnDeleteLoadBalancer", 0, 0) + l.Cost("HcnCreateLoadBalancer", len(addrs), t.wanted())
		}
		r.changeFloor = round(cost.Seconds())
	}

	return nil
}

// changed waits until a load balancer was made or modified since before.
// It ends with the first success; calls with an error do not count.
func (t *bench) changed(ctx context.Context, before serve.Stats) (after serve.Stats, err error) {
	updates := func(s serve.Stats) int {
		n := 0
		for _, f := range []string{"HcnCreateLoadBalancer", "HcnModifyLoadBalancer"} {
			n += s.Calls[f] - s.Errors[f]
		}
		return n
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond) // what is measured takes a few
	defer tick.Stop()
	for {
		if after, err = t.HNS.Stats(ctx); err != nil || updates(after) > updates(before) {
			return after, err
		}
		select {
		case <-ctx.Done():
			return after, fmt.Errorf("a change on %s: HNS was asked for none: %w", t.Name, ctx.Err())
		case <-tick.C:
		}
	}
}

// quiet waits until no call was made for a second and gives the counters.
func (t *bench) quiet(ctx context.Context) (last serve.Stats, err error) {
	since := time.Now()
	err = wait.For(ctx, 2*time.Minute, "HNS calls to end on "+t.Name, func(ctx context.Context) error {
		now, err := t.HNS.Stats(ctx)
		if err != nil {
			return err
		}
		if operations(now) != operations(last) {
			last, since = now, time.Now()
		}
		if time.Since(since) < time.Second {
			return errors.New("calls are made")
		}
		return nil
	})
	return last, err
}

// operations are the calls without those that read back or end what another one began.
func operations(s serve.Stats) int {
	n := s.Writes
	for f, count := range s.Calls {
		if len(f) > 12 && f[:12] == "HcnEnumerate" {
			n += count
		}
	}
	return n
}

// allCalls counts every call, those that open, read and close objects too.
func allCalls(s serve.Stats) int {
	n := 0
	for _, count := range s.Calls {
		n += count
	}
	return n
}

// printStarts prints the figures of one profile. Where the profile has no latency, the floor is
// what the bare program took.
func (b *proxyBench) printStarts(s scale, floor float64, ours, peer *startResult) {
	name := func(what string) string { return "proxy-" + what + "-" + s.profile }
	scaleNote := fmt.Sprintf("%d services, %d endpoints, %d of them on the host; latency profile %s", s.services,
		b.load.addresses(s)+localPods, localPods, s.profile)
	note := scaleNote + "; floor: the latencies of the creates that are needed"
	if floor == 0 {
		floor = median(ours.bare)
		note = scaleNote + "; floor: a program that makes the same objects and nothing else, in turn with ours"
	}
	all := figure{Name: name("start-all"), Unit: "s", Target: round(1.1 * floor), Note: note,
		Samples: map[string][]float64{"ours": ours.fills, "floor": ours.bare}}
	print(compare(all, median(ours.fills), peer.first.all, floor))

	print(compare(figure{Name: name("start-cpu"), Unit: "s",
		Note: "processor time of the program until all is programmed"}, ours.first.cpu, peer.first.cpu, 0))
	essential := figure{Name: name("start-dns-and-api"), Unit: "s", Note: scaleNote + "; until a pod gets answers"}
	if s.profile == "ws2022-updated" {
		essential.Target = 2
	}
	print(compare(essential, ours.first.essential, peer.first.essential, 0))
	needed := float64(b.load.addresses(s) + s.services + 3)
	print(compare(figure{Name: name("start-writes"), Unit: "calls", Target: needed, Calls: ours.calls.Calls,
		PeerCalls: peer.calls.Calls, Note: scaleNote},
		float64(ours.calls.Writes), float64(peer.calls.Writes), needed))

	print(compare(figure{Name: name("start-calls"), Unit: "calls",
		Note: "all calls, those that open, read and close objects too"},
		float64(allCalls(ours.calls)), float64(allCalls(peer.calls)), 0))
	// A restart must write nothing, which is stricter than any ratio to the peer.
	f := compare(figure{Name: name("restart-writes"), Unit: "calls", Note: scaleNote + "; everything is programmed"},
		float64(ours.restartCalls.Writes), float64(peer.restartCalls.Writes), 0)
	good := ours.restartCalls.Writes == 0
	f.OK = &good
	print(f)
	print(compare(figure{Name: name("restart-healthy"), Unit: "s", Calls: ours.restartCalls.Calls,
		PeerCalls: peer.restartCalls.Calls,
		Note:      "from the start of the program until /healthz is 200"}, ours.restart, peer.restart, 0))

	good2 := ours.outage.Failed+ours.outage.Broken == 0
	print(figure{Name: name("restart-outage"), Unit: "connections", PeerIs: upstreamProxy, Ours: ours.outage,
		Peer: peer.outage, OK: &good2,
		Note: "100 connections open, 100 new ones per second, from the end of the program until HNS is as it was"})
	c := compare(figure{Name: name("change"), Unit: "s", Target: round(ours.changeFloor + 0.020),
		Note:    "an endpoint is added to one service: from the API server's answer until HNS has done it",
		Samples: map[string][]float64{"ours": ours.change, "peer": peer.change}}, median(ours.change),
		median(peer.change), ours.changeFloor)
	print(c)
	print(compare(figure{Name: name("change-calls"), Unit: "calls", Target: 3,
		Note:    "creates, modifies, deletes and listings for it",
		Samples: map[string][]float64{"ours": ours.changeCalls, "peer": peer.changeCalls}}, median(ours.changeCalls),
		median(peer.changeCalls), 0))
}

// compare fills in both values and their ratios.
// A peer or a floor of 0 was not measured and is left out.
func compare(f figure, ours, peer, floor float64) figure {
	f.PeerIs, f.Ours = upstreamProxy, ours
	if peer > 0 {
		f.Peer, f.Ratio = peer, round(ours/peer)
	}
	if floor > 0 {
		f.Floor, f.OfFloor = floor, round(ours/floor)
	}
	return f
}
