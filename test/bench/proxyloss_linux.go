package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxy/lab"
)

// crashed is how many load balancers HNS loses: kubernetes/kubernetes#110674 and #110849 lost as many.
// Two of DNS and one of the API are among them.
const crashed = 577

// balancersFloor is how many seconds HNS takes for the calls alone that make the load balancers of s.
func (b *proxyBench) balancersFloor(s scale) (seconds float64, err error) {
	l, err := latency.Of(s.profile)
	if err != nil {
		return 0, err
	}
	for i, n := range b.load.backends(s) {
		seconds += l.Cost("HcnCreateLoadBalancer", n, i).Seconds()
	}
	return seconds, nil
}

// crash lets HNS go for a second and come back without its load balancers, and waits until these are back, without any
// change of a service.
func (b *proxyBench) crash(ctx context.Context) error {
	s := scale{"ws2022-updated", 20348, crashed - 3}
	// The floor is the latency of the creates that bring the load balancers back.
	floor, err := b.balancersFloor(s)
	if err != nil {
		return err
	}
	// Each program has a host of its own with the same objects, and HNS fails under both in the same way.
	seen := map[string]recovery{}
	for _, program := range programs {
		if seen[program], err = b.crashUnder(ctx, program, s); err != nil {
			return err
		}
	}

	ours, upstream := seen["ours"], seen["upstream"]
	note := fmt.Sprintf(
		"HNS is gone for 1 s and comes back without its %d load balancers, latency profile %s; after %v upstream's program had made %d again (no value: not in that time)",
		crashed, s.profile, crashPatience, upstream.back)
	floor = round(floor)
	f := compare(figure{Name: "proxy-crash-all-back", Unit: "s", Target: round(1.1 * floor), Note: note}, ours.all,
		upstream.all, floor)
	g := compare(figure{Name: "proxy-crash-dns-back", Unit: "s", Target: 1, Note: note}, ours.dns, upstream.dns, 0)
	if ours.all == 0 {
		f.Ours, f.Skipped = nil, "they did not come back"
	}
	if ours.dns == 0 {
		g.Ours, g.Skipped = nil, "it did not come back"
	}
	print(f)
	print(g)
	return nil
}

// crashPatience is how long the load balancers are waited for. Upstream's program does not bring them back; this is
// more than one of its periods.
const crashPatience = 40 * time.Second

// recovery is what came back after HNS had gone: seconds until DNS and the API answered and until all load balancers
// were there, 0 if that was not in time, and how many were there at the end.
type recovery struct {
	dns, all float64
	back     int
}

// crashUnder lets HNS go under one program.
func (b *proxyBench) crashUnder(ctx context.Context, program string, s scale) (r recovery, err error) {
	t, err := b.prepared(ctx, "crash", program, s)
	if err != nil {
		return r, err
	}
	if err := errors.Join(t.latency(ctx, s.profile), t.HNS.ResetStats(ctx)); err != nil {
		return r, err
	}
	began, err := t.crashHNS(ctx)
	if err != nil {
		return r, err
	}

	// A program that does not come back in time is a result and no error.
	if err := t.answers(ctx, crashPatience); err == nil {
		r.dns = round(time.Since(began).Seconds())
	}
	// What is left of the same patience is for the other load balancers.
	if err := t.made(ctx, crashPatience-time.Since(began)); err == nil {
		r.all = round(time.Since(began).Seconds())
	}
	if r.back, err = t.balancers(ctx); err != nil {
		return r, err
	}
	say("%s: %d back, DNS and API after %.2f s, all after %.1f s", t.Name, r.back, r.dns, r.all)
	t.halt()
	return r, t.close()
}

// crashHNS returns when HNS is back.
// HNS is gone for one second and loses all load balancers, but no endpoints.
func (t *bench) crashHNS(ctx context.Context) (time.Time, error) {
	crash := map[string]any{"state": "gone", "lose": []string{"LoadBalancer"}, "forMs": 1000}
	if err := t.HNS.Control(ctx, "POST", "/service", crash, nil); err != nil {
		return time.Time{}, err
	}
	err := wait.For(ctx, 10*time.Second, "HNS to be back", func(ctx context.Context) error {
		var s serve.ServiceStatus
		err := t.HNS.Control(ctx, "GET", "/service", nil, &s)
		if err == nil && s.State != "running" {
			err = fmt.Errorf("it is %s", s.State)
		}
		return err
	})
	return time.Now(), err
}

// prepared is a host on which the program has programmed everything, quickly.
// It fills HNS without latency, so that the preparation is short; the caller sets the profile that
// is measured.
func (b *proxyBench) prepared(ctx context.Context, what, program string, s scale) (*bench, error) {
	fast := s
	fast.profile = "none"
	t, err := b.host(ctx, what, program, fast, true)
	if err != nil {
		return nil, err
	}
	t.scale = s
	if err := errors.Join(t.HNS.ResetStats(ctx), t.run()); err != nil {
		return nil, err
	}
	if err := t.made(ctx, 5*time.Minute); err != nil {
		return nil, err
	}
	return t, t.Settled(ctx, time.Minute)
}

// idleServices are fewer than others have: calls that repeat grow with them.
// Both programs have a check that repeats, and its calls are what is counted.
const idleServices = 800

// idle counts the calls of both programs while nothing changes. They run at the same time, each on a host of its own:
// it is calls that are counted, no time.
func (b *proxyBench) idle(ctx context.Context) error {
	s := scales[0]
	s.services = min(idleServices, s.services)
	const window = 65 * time.Second // two periods of both

	hosts := map[string]*bench{}
	for _, program := range programs {
		t, err := b.prepared(ctx, "idle", program, s)
		if err != nil {
			return err
		}
		hosts[program] = t
		if _, err := t.quiet(ctx); err != nil {
			return err
		}
	}

	// The counters of all hosts begin at zero together.
	for _, t := range hosts {
		if err := t.HNS.ResetStats(ctx); err != nil {
			return err
		}
	}

	timer := time.NewTimer(window) // the time itself is what is measured
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}

	stats := map[string]serve.Stats{}
	for program, t := range hosts {
		var err error
		if stats[program], err = t.HNS.Stats(ctx); err != nil {
			return err
		}
		t.halt()
		if err := t.close(); err != nil {
			return err
		}
	}

	ours, peer := stats["ours"], stats["upstream"]
	print(compare(figure{Name: "proxy-idle-calls", Unit: "calls", Target: float64(allCalls(peer) / 10),
		Calls: ours.Calls, PeerCalls: peer.Calls,
		Note: fmt.Sprintf("all calls in %v, %d services, nothing changes; target: a tenth of upstream's", window,
			s.services)},
		float64(allCalls(ours)), float64(allCalls(peer)), 0))
	return nil
}

const (
	churnServices = 50 // with churnSlice endpoints each
	churnSlice    = 100
	churnRate     = 40 // slices written per second
	churnPart     = 25 // endpoints that each write changes
)

// churn changes a thousand endpoints per second and watches how far behind the program is: a service of its own goes
// from one pod to another and back, and a client sees when.
func (b *proxyBench) churn(ctx context.Context) error {
	s := scale{"none", 20348, answering}
	// Upstream's program is watched for a quarter of the time.
	for _, program := range programs {
		window := time.Minute
		if program != "ours" {
			window /= 4
		}
		t, err := b.prepared(ctx, "churn", program, s)
		if err != nil {
			return err
		}
		c := &churn{bench: t}
		if err := c.prepare(ctx); err != nil {
			return err
		}
		if _, err := t.quiet(ctx); err != nil {
			return err
		}
		if err := c.run(ctx, window); err != nil {
			return err
		}
		say("%s: worst lag %.2f s, %.0f changes per second, %.2f cores", t.Name, c.worst(), c.rate, c.cores)
		c.print()
		t.halt()
		if err := t.close(); err != nil {
			return err
		}
	}

	return nil
}

// churn is the state of one program's run.
type churn struct {
	*bench
	services []*corev1.Service
	// marker leads to one pod at a time.
	marker *corev1.Service
	// lags has a sample in seconds for each move of the marker; rate is endpoint changes per
	// second; cores is the processor time of the program per second.
	lags  []float64
	rate  float64
	cores float64
	calls serve.Stats
}

// prepare makes the services of the churn and the marker, a service whose changes show how far behind the proxy is.
func (c *churn) prepare(ctx context.Context) (err error) {
	if c.marker, err = c.ApplyService(ctx,
		lab.Service("marker-"+c.program, lab.Port("p", "tcp", 80, serverPort))); err != nil {
		return err
	}
	c.services = make([]*corev1.Service, churnServices)
	err = each(churnServices, func(i int) (err error) {
		if c.services[i], err = c.ApplyService(ctx,
			lab.Service(fmt.Sprintf("churn-%s-%d", c.program, i),
				lab.Port("p", "tcp", 80, serverPort))); err != nil {
			return err
		}
		return c.write(ctx, i, 0)
	})
	if err != nil {
		return err
	}
	return c.mark(ctx, 0)
}

// write gives service i its endpoints of a turn: a part of them is others than in the turn before.
// The addresses are among the first 12,000 that remote gives.
func (c *churn) write(ctx context.Context, i, turn int) error {
	var addrs []netip.Addr
	for k := range churnSlice {
		// Each turn the window moves on by a part; addresses come again after four turns.
		addrs = append(addrs, remote((i*2*churnSlice+(turn*churnPart+k)%(2*churnSlice))%12000))
	}
	return c.ApplySlice(ctx, lab.Slice(c.services[i], "", lab.On("lin", addrs...)...))
}

// mark moves the marker to a pod and waits until a client is answered by it.
func (c *churn) mark(ctx context.Context, pod int) error {
	if err := c.ApplySlice(ctx, lab.Slice(c.marker, "", lab.On("lin", c.load.far[pod])...)); err != nil {
		return err
	}
	return wait.For(ctx, 2*time.Minute, "the marker to move", func(context.Context) error {
		r, err := c.near.Ask("tcp", lab.ClusterAddr(c.marker, 80), time.Second)
		if want := fmt.Sprintf("far%d", pod); err == nil && r.Name != want {
			err = fmt.Errorf("%s answers, not %s", r.Name, want)
		}
		return err
	})
}

// run changes services at a fixed rate for the time of window, and meanwhile changes the marker and waits until HNS
// has it, again and again: each of these waits is a sample of the lag. It fails with the writer's error if the writer
// stops.
func (c *churn) run(ctx context.Context, window time.Duration) error {
	if err := c.HNS.ResetStats(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	// The writer is a goroutine of its own, so that it keeps its rate while the marker is waited
	// for. It owns written until it has sent its result.
	writer := make(chan error, 1)
	written := 0
	began, cpu := time.Now(), c.proxy.CPU()

	go func() {
		tick := time.NewTicker(time.Second / churnRate)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				writer <- nil
				return
			case <-tick.C:
			}
			// Service after service gets the endpoints of the next turn.
			if err := c.write(ctx, n%churnServices, 1+n/churnServices); err != nil && ctx.Err() == nil {
				writer <- err
				return
			}
			written++
		}
	}()

	for n := 1; ctx.Err() == nil; n++ {
		at := time.Now()
		err := c.mark(ctx, n%2)
		if err != nil && ctx.Err() == nil {
			cancel()
			return errors.Join(err, <-writer)
		}
		// A wait that the end of the window cut short is a sample too.
		c.lags = append(c.lags, round(time.Since(at).Seconds()))
	}

	c.cores = round((c.proxy.CPU() - cpu) / time.Since(began).Seconds())
	err := <-writer
	c.rate = float64(written*churnPart) / time.Since(began).Seconds()
	if err != nil {
		return err
	}
	c.calls, err = c.HNS.Stats(context.WithoutCancel(ctx))

	return err
}

// worst is the longest lag in seconds; 0 without samples.
func (c *churn) worst() float64 {
	worst := 0.0
	for _, l := range c.lags {
		worst = max(worst, l)
	}
	return worst
}

// print prints the lag and the processor time, as ours or as the peer's. Only ours has a target.
func (c *churn) print() {
	note := fmt.Sprintf(
		"%.0f endpoint changes per second in %d services; the time until a change of another service serves a client, at worst (median %.3f, %d samples)",
		c.rate, churnServices, median(c.lags), len(c.lags))
	lag := figure{Name: "proxy-churn-lag", Unit: "s", Note: note, Calls: c.calls.Calls}
	cpu := figure{Name: "proxy-churn-cpu", Unit: "cores", Note: "processor time of the program"}
	if c.program == "ours" {
		lag.Ours = c.worst()
		lag.Target = 2
		cpu.Ours = c.cores
		cpu.Target = 1
	} else {
		lag.PeerIs = upstreamProxy
		cpu.PeerIs = upstreamProxy
		lag.Peer = c.worst()
		cpu.Peer = c.cores
	}
	print(lag)
	print(cpu)
}

// The endpoints of the services are 5,000 addresses, so that many services share one.
const largeServices, largeBackends = 10000, 10

// large is the memory of ours in a big cluster: upstream's program needs longer for so many services than all the rest
// of the run. HNS keeps state only: packets are not what is measured.
func (b *proxyBench) large(ctx context.Context) error {
	h, err := b.lab.AddHost(ctx, lab.HostOptions{Name: "large", Build: 20348, Isolated: true, NoDataPlane: true})
	if err != nil {
		return err
	}
	say("making %d services", b.o.large)
	err = h.Bulk(ctx, "large", b.o.large, func(i int) (addrs []netip.Addr) {
		for k := range largeBackends {
			addrs = append(addrs, remote((i*7+k*431)%5000))
		}
		return addrs
	})
	if err != nil {
		return err
	}

	// The three load balancers of DNS and the API do not exist here; wanted adds them.
	t := &bench{Host: h, program: "ours", load: &b.load, scale: scale{services: b.o.large - 3}}
	if err := errors.Join(t.HNS.ResetStats(ctx), t.run(), t.made(ctx, 5*time.Minute)); err != nil {
		return err
	}
	if _, err := t.quiet(ctx); err != nil {
		return err
	}
	mib, _, err := memoryAndCPU(t.proxy.PID())
	if err != nil {
		return err
	}
	rss := round(mib * 1024 * 1024 / 1e6)
	own, err := t.ownMemory(ctx)
	if err != nil {
		return err
	}

	say("large-ours: %.0f MB, of which its own %.0f MB", rss, own)
	note := fmt.Sprintf("%d services with %d endpoints each", b.o.large, largeBackends)
	print(figure{Name: "proxy-large-own-memory", Unit: "MB", Ours: own, Target: 80,
		Note: note + "; what the Go runtime holds"})
	print(figure{Name: "proxy-large-rss", Unit: "MB", Ours: rss, Target: 80,
		Note: note + "; 12 MB are Wine's; the program's file, of which this has what was read, is shared with others"})
	t.halt()

	return t.close()
}

// ownMemory is what the program's runtime took from the system and has not given back, in MB, by its own metrics.
func (t *bench) ownMemory(ctx context.Context) (float64, error) {
	_, body, err := t.Get(ctx, lab.MetricsPort, "/metrics")
	if err != nil {
		return 0, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(body) {
		if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[0], "go_memstats_") {
			if values[f[0]], err = strconv.ParseFloat(f[1], 64); err != nil {
				return 0, err
			}
		}
	}
	taken := values["go_memstats_sys_bytes"]
	back := values["go_memstats_heap_released_bytes"]
	if taken == 0 {
		return 0, errors.New("the program has no metrics of its memory")
	}
	return round((taken - back) / 1e6), nil
}
