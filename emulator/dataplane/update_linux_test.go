package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/dataplane/dataplanetest"
	"porthole.dev/porthole/emulator/desired"
)

// update makes a small change and fails the test if everything was rendered for it.
func (w *world) update(n *node, c desired.Change) {
	w.t.Helper()
	res, err := n.dp.Update(w.ctx, c, func() desired.State {
		w.t.Errorf("everything was rendered for a small change: %+v", c)
		return n.desired
	})
	must(w.t, err)
	for id, err := range res {
		w.t.Errorf("object %s: %v", id, err)
	}
}

func (w *world) undrifted(n *node) {
	w.t.Helper()
	drift, err := n.dp.Verify(w.ctx, n.desired)
	must(w.t, err)
	for _, d := range drift {
		w.t.Errorf("drift: %s", d.Text)
	}
}

// Small changes leave the kernel as it should be, whatever their order, and packets follow them.
func TestUpdateKernel(t *testing.T) {
	w := newDual(t)
	client, one, two := w.a.pod(11), w.a.pod(12), w.a.pod(13)
	w.a.apply()
	w.serve(one, "one", 80)
	w.serve(two, "two", 80)
	c := dataplanetest.Churn{Rand: rand.New(rand.NewPCG(3, 4)), Desired: w.a.desired}
	for range 300 {
		change := c.Next()
		w.a.desired = c.Desired
		w.update(w.a, change)
	}

	w.undrifted(w.a)
	l := lb("mine", "10.97.0.1", 53, 80, true, w.a.epID(12))
	set := func(l desired.LoadBalancer) {
		w.a.desired.LoadBalancers = append(slices.DeleteFunc(slices.Clone(w.a.desired.LoadBalancers),
			func(o desired.LoadBalancer) bool { return o.ID == l.ID }), l)
		w.update(w.a, desired.Change{LoadBalancers: []desired.LoadBalancer{l}})
	}

	set(l)
	conn, err := w.dial(client, "tcp", "10.97.0.1:53")
	must(t, err)
	defer conn.Close()
	udp, err := w.dial(client, "udp", "10.97.0.1:53")
	must(t, err)
	defer udp.Close()
	for range 2 {
		for _, o := range []string{"tcp", "udp"} {
			open := conn
			if o == "udp" {
				open = udp
			}
			if got, err := ask(open); err != nil || got != "one 10.244.1.11" {
				t.Errorf("%s: %q %v", o, got, err)
			}
		}
		l.Backends = []string{w.a.epID(12), w.a.epID(13)}
		set(l)
	}

	l.Backends = []string{w.a.epID(13)}
	set(l)
	w.a.dp.flows.Settle()
	if got, err := ask(conn); err != nil || got != "one 10.244.1.11" { // an open connection stays
		t.Errorf("tcp: %q %v", got, err)
	}
	if got, err := ask(udp); err != nil || got != "two 10.244.1.11" { // a flow moves
		t.Errorf("udp: %q %v", got, err)
	}
	w.expect(client, "10.97.0.1:53", "two 10.244.1.11")
	w.undrifted(w.a)
	// Somebody takes an element away: the next change that touches it mends the whole.
	w.nft("delete element ip hns dsr { 10.97.0.1 . tcp . 53 }")
	all := 0
	_, err = w.a.dp.Update(w.ctx, desired.Change{GoneLoadBalancers: []string{"mine"}}, func() desired.State {
		all++
		w.a.desired.LoadBalancers = slices.DeleteFunc(w.a.desired.LoadBalancers,
			func(o desired.LoadBalancer) bool { return o.ID == "mine" })
		return w.a.desired
	})

	must(t, err)
	if all != 1 {
		t.Errorf("everything was asked for %d times", all)
	}
	w.expect(client, "10.97.0.1:53", "timeout")
	w.undrifted(w.a)
}

// A conflict is reported as when everything is applied, and what was there stays.
func TestUpdateConflict(t *testing.T) {
	w := newWorld(t)
	client, one, two := w.a.pod(11), w.a.pod(12), w.a.pod(13)
	w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("first", "10.97.0.1", 53, 80, true, w.a.epID(12))}
	w.a.apply()
	w.serve(one, "one", 80)
	w.serve(two, "two", 80)
	second := lb("second", "10.97.0.1", 53, 80, true, w.a.epID(13))
	res, err := w.a.dp.Update(w.ctx, desired.Change{LoadBalancers: []desired.LoadBalancer{second}},
		func() desired.State {
			d := w.a.desired
			d.LoadBalancers = append(slices.Clone(d.LoadBalancers), second)
			return d
		})
	must(t, err)
	if res["second"] == nil || res["first"] != nil {
		t.Errorf("results %v", res)
	}
	w.expect(client, "10.97.0.1:53", "one 10.244.1.11")
	w.a.apply()
	w.expect(client, "10.97.0.1:53", "one 10.244.1.11")
}

// TestUpdateSpeed: with 2,000 load balancers of 5 backends one change takes at most 2 ms, and so does each of the 2,000
// when they come one after another.
func TestUpdateSpeed(t *testing.T) {
	w := newWorld(t)
	w.a.pod(11)
	for i := range 500 {
		w.a.remote(fmt.Sprintf("10.244.%d.%d", 3+i/200, 1+i%200))
	}
	w.apply(w.a)
	remotes := w.a.desired.Endpoints[1:]
	var times [3][]time.Duration
	timed := func(kind int, c desired.Change) {
		start := time.Now()
		w.update(w.a, c)
		times[kind] = append(times[kind], time.Since(start))
	}

	start := time.Now()
	for i := range 2000 {
		l := lb(fmt.Sprint("lb", i), fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), 80, 8080, i%2 == 0)
		for b := range 5 {
			l.Backends = append(l.Backends, remotes[(i*5+b)%len(remotes)].ID)
		}
		w.a.desired.LoadBalancers = append(w.a.desired.LoadBalancers, l)
		timed(0, desired.Change{LoadBalancers: []desired.LoadBalancer{l}})
	}

	all := time.Since(start)
	w.a.dp.flows.Settle()
	for i := range 100 {
		l := &w.a.desired.LoadBalancers[i*7]
		l.Backends = append([]string{remotes[i].ID}, l.Backends[1:4]...)
		timed(1, desired.Change{LoadBalancers: []desired.LoadBalancer{*l}})
		e := desired.Endpoint{ID: fmt.Sprint("extra", i), Network: netID, Remote: true,
			Addrs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245, 1, byte(i)}), 32)}}
		w.a.desired.Endpoints = append(w.a.desired.Endpoints, e)
		timed(2, desired.Change{Endpoints: []desired.Endpoint{e}})
	}

	w.undrifted(w.a)
	for kind, name := range []string{"load balancer created", "load balancer changed", "endpoint created"} {
		slices.Sort(times[kind])
		n := len(times[kind])
		t.Logf("%s: median %v, 99 %% %v", name, times[kind][n/2], times[kind][n*99/100])
		// The median, and wide, because the machine may be busy.
		if limit := 10 * time.Millisecond; times[kind][n/2] > limit {
			t.Errorf("%s: median %v, more than %v", name, times[kind][n/2], limit)
		}
	}

	t.Logf("2000 load balancers one after another: %v", all)
	if all > 20*time.Second {
		t.Errorf("2000 load balancers took %v", all)
	}
}

// An update of a data plane that never applied anything reads the kernel first.
func TestUpdateFirst(t *testing.T) {
	w := newWorld(t)
	client, one := w.a.pod(11), w.a.pod(12)
	l := lb("l", "10.97.0.1", 53, 80, true, w.a.epID(12))
	w.a.desired.LoadBalancers = []desired.LoadBalancer{l}
	all := 0
	_, err := w.a.dp.Update(context.Background(), desired.Change{LoadBalancers: []desired.LoadBalancer{l}},
		func() desired.State { all++; return w.a.desired })
	must(t, err)
	if all != 1 {
		t.Errorf("everything was asked for %d times", all)
	}
	w.serve(one, "one", 80)
	w.expect(client, "10.97.0.1:53", "one 10.244.1.11")
}
