package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxy/lab"
)

const upstreamProxy = "upstream kube-proxy.exe v1.36.3"

// scale is one set of services on a host whose HNS has one latency profile. The slow profiles have fewer services, so
// that the whole run stays short: the time that HNS needs is proportional to the calls.
type scale struct {
	profile         string
	build, services int // there are about two and a half endpoints for each service
}

// The builds are those whose latency the profile describes.
var scales = []scale{
	{"none", 20348, 2000},
	{"ws2025", 26100, 220},
	{"ws2022-updated", 20348, 200},
	{"ws2019", 17763, 16},
}

// localPods of each host are backends, as in the report that the scale is taken from (kubernetes/kubernetes#109124).
const localPods = 15

// proxyBench is one lab with the objects that all hosts see a part of.
// Only one group of hosts runs at a time; the load is made once for all of them.
type proxyBench struct {
	lab  *lab.Lab
	o    options
	node *lab.Node
	load load
}

// programs are measured in turn.
// The names are part of the hosts' names, and of the figures'.
var programs = []string{"ours", "upstream"}

// benchProxy measures the service proxy beside upstream's, on equal emulated hosts with the same objects.
func benchProxy(ctx context.Context, o options) (err error) {
	for i := range scales {
		scales[i].services = max(localPods+1, int(float64(scales[i].services)*o.scale))
	}
	l, err := lab.New(ctx, lab.Options{Bin: o.bin, Prefix: "phbench"})
	if err != nil {
		return err
	}
	b := &proxyBench{lab: l, o: o}
	defer func() { err = errors.Join(err, l.Close()) }()

	// The groups run in this order, and each removes its hosts before the next begins.
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, group := range []struct {
		name string
		run  func(context.Context) error
	}{{"start", b.starts}, {"crash", b.crash}, {"idle", b.idle}, {"churn", b.churn}, {"large", b.large}} {
		if !named(o.proxy, group.name) {
			continue
		}
		began := time.Now()
		if err := group.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", group.name, err)
		}
		say("%s: %.0f s", group.name, time.Since(began).Seconds())
	}

	return nil
}

// bench is a host with one of the programs.
// near is the first of the host's own pods, proxy the program that runs or ran last.
type bench struct {
	*lab.Host
	program string
	near    *lab.Pod
	proxy   *testkit.Process
	load    *load
	scale   scale
}

// host makes a host that sees the first services of the load, with its own pods behind some of them.
// The host answers from its own pods only with a data plane; without one HNS keeps objects and
// moves no packets, and nothing can listen there.
func (b *proxyBench) host(ctx context.Context, what, program string, s scale, plane bool) (*bench, error) {
	h, err := b.lab.AddHost(ctx,
		lab.HostOptions{Name: what + "-" + program, Build: s.build, Isolated: true, NoDataPlane: !plane})
	if err != nil {
		return nil, err
	}
	t := &bench{Host: h, program: program, load: &b.load, scale: s}
	for i := range localPods {
		p, err := h.Pod(ctx, fmt.Sprintf("p%d", i), none)
		if err != nil {
			return nil, err
		}
		if _, err := p.Serve(serverPort); plane && err != nil {
			return nil, err
		}
		if i == 0 {
			t.near = p
		}
		if err := b.load.local(ctx, t, i, p.Addr); err != nil {
			return nil, err
		}
	}
	return t, t.latency(ctx, s.profile)
}

// latency sets how long calls of HNS take on this host from now on, by the name of a profile.
func (t *bench) latency(ctx context.Context, profile string) error {
	return t.HNS.Control(ctx, "POST", "/latency", map[string]string{"profile": profile}, nil)
}

// run starts the program; ended by halt or by the end of the lab.
func (t *bench) run() (err error) {
	if t.program == "ours" {
		t.proxy, err = t.RunOurs()
	} else {
		t.proxy, err = t.RunUpstream()
	}
	return err
}

// halt ends the program; what it made stays in HNS.
func (t *bench) halt() { t.proxy.Stop() }

// close ends a host that is measured no more, so that it costs the others nothing.
func (t *bench) close() error { return t.Host.Close() }

// wanted load balancers: one for each service, two for DNS, one for the API.
func (t *bench) wanted() int { return t.scale.services + 3 }

// balancers counts the load balancers that were made since the counters were reset.
// Load balancers that were deleted again count as well.
func (t *bench) balancers(ctx context.Context) (int, error) {
	s, err := t.HNS.Stats(ctx)
	return s.Calls["HcnCreateLoadBalancer"] - s.Errors["HcnCreateLoadBalancer"], err
}

// made waits until that number of load balancers exists and none is missing.
func (t *bench) made(ctx context.Context, limit time.Duration) error {
	return wait.For(ctx, limit, "load balancers of "+t.Name, func(ctx context.Context) error {
		if ended, err := t.proxy.Ended(); ended {
			return fmt.Errorf("the proxy has ended: %w: %s", err, t.proxy.LogTail(1500))
		}
		n, err := t.balancers(ctx)
		if err == nil && n < t.wanted() {
			err = fmt.Errorf("%d of %d", n, t.wanted())
		}
		return err
	})
}

// floor is the least time in which HNS can do the calls that the load needs, one write after another.
// Endpoints come first, then load balancers with their backends; the cost of a load balancer grows
// with the number that exist already.
func (t *bench) floor() (float64, error) {
	l, err := latency.Of(t.scale.profile)
	if err != nil {
		return 0, err
	}
	sum := time.Duration(t.load.addresses(t.scale)) * l.Cost("HcnCreateEndpoint", 0, 0)
	for i, backends := range t.load.backends(t.scale) {
		sum += l.Cost("HcnCreateLoadBalancer", backends, i)
	}
	return round(sum.Seconds()), nil
}
