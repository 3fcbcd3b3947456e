package service

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// step is one step of a test: what is done, and what Take returns then.
type step struct {
	do   func(*Tracker)
	want string
}

func story(t *testing.T, steps []step) {
	t.Helper()
	tracker := NewTracker(here)
	for i, s := range steps {
		s.do(tracker)
		if got := text(tracker.Take()); got != s.want {
			t.Fatalf("step %d: got\n%swant\n%s", i+1, got, s.want)
		}
	}
}

// TestTakeOnlyWhatChanged changes one service beside another that stays as it is.
func TestTakeOnlyWhatChanged(t *testing.T) {
	story(t, []step{
		{func(x *Tracker) { x.SetSlice(eps("web-1", "10.0.0.1")) }, ""}, // a slice before its service
		{func(x *Tracker) { x.SetService(svc("web")); x.SetService(svc("other", ips("10.96.0.2"))) },
			lines("other cluster IP 10.96.0.2 80/tcp -> ", "web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080")},
		{func(*Tracker) {}, ""},
		{func(x *Tracker) { x.SetSlice(eps("web-1", "10.0.0.1")); x.SetService(svc("web")) }, ""}, // nothing new
		{func(x *Tracker) { x.SetSlice(eps("web-2", "10.0.0.2")) },
			lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080 10.0.0.2:8080")},
		{func(x *Tracker) { x.SetSlice(with(eps("web-2", "10.0.0.2"), of("other"))) }, // it moves
			lines("other cluster IP 10.96.0.2 80/tcp -> 10.0.0.2:8080",
				"web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080")},
		{func(x *Tracker) { x.RemoveSlice("ns", "web-1") }, lines("web cluster IP 10.96.0.1 80/tcp -> ")},
		{func(x *Tracker) { x.RemoveService("ns", "web"); x.RemoveService("ns", "never") }, lines("web gone")},
		{func(x *Tracker) { x.SetService(svc("web")) }, lines("web cluster IP 10.96.0.1 80/tcp -> ")},
		{func(x *Tracker) { x.SetService(svc("web", ips("None"))) }, lines("web gone")},
		{func(x *Tracker) { x.RemoveService("ns", "web") }, ""},
	})
}

// TestZoneChange: everything is computed again if the node's zone changes, and nothing if it does not.
func TestZoneChange(t *testing.T) {
	story(t, []step{
		{func(x *Tracker) {
			x.SetService(svc("web"))
			x.SetSlice(eps("web-1", "10.0.0.1 zone=z1", "10.0.0.2 zone=z2"))
		}, lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.1:8080")},
		{func(x *Tracker) { x.SetNode(here) }, ""},
		{func(x *Tracker) { x.SetNode(Node{Name: "n1", Zone: "z2"}) },
			lines("web cluster IP 10.96.0.1 80/tcp -> 10.0.0.2:8080")},
	})
}

// TestTwoServicesOneFrontend: the older service has it, and the other one gets it when the first is deleted. A service
// cannot take a cluster IP by naming it as an external IP.
func TestTwoServicesOneFrontend(t *testing.T) {
	older := svc("older", ips("10.96.0.2"), createdAt(100), externalIPs("198.51.100.1"))
	newer := svc("newer", ips("10.96.0.3"), createdAt(200), externalIPs("198.51.100.1"))
	const newerOwn, olderOwn = "newer cluster IP 10.96.0.3 80/tcp -> ", "older cluster IP 10.96.0.2 80/tcp -> "
	story(t, []step{
		{func(x *Tracker) { x.SetService(newer) }, lines(newerOwn, "newer external IP 198.51.100.1 80/tcp -> ")},
		{func(x *Tracker) { x.SetService(older) },
			lines(newerOwn, "newer problem FrontendTaken", olderOwn, "older external IP 198.51.100.1 80/tcp -> ")},
		{func(x *Tracker) { x.RemoveService("ns", "older") },
			lines(newerOwn, "newer external IP 198.51.100.1 80/tcp -> ", "older gone")},
		{func(x *Tracker) { x.SetService(svc("thief", ips("10.96.0.9"), createdAt(1), externalIPs("10.96.0.3"))) },
			lines("thief cluster IP 10.96.0.9 80/tcp -> ", "thief problem FrontendTaken")},
		{func(x *Tracker) { x.RemoveService("ns", "newer") },
			lines("newer gone", "thief cluster IP 10.96.0.9 80/tcp -> ", "thief external IP 10.96.0.3 80/tcp -> ")},
	})
}

// TestOrder: the services that everything else needs come first.
func TestOrder(t *testing.T) {
	x := NewTracker(here)
	x.SetService(svc("a/a"))
	x.SetService(svc("b/addon", ips("10.96.0.2"), label("kubernetes.io/cluster-service", "true")))
	x.SetService(svc("default/kubernetes", ips("10.96.0.3")))
	x.SetService(svc("kube-system/kube-dns", ips("10.96.0.4")))
	x.SetService(svc("z/dns", ips("10.96.0.5"), label("k8s-app", "kube-dns")))
	var got []string
	for _, s := range x.Take() {
		got = append(got, s.Service)
	}
	if want := "kube-system/kube-dns z/dns default/kubernetes b/addon a/a"; strings.Join(got, " ") != want {
		t.Errorf("order %v, want %s", got, want)
	}
}

// TestTriggered: the times of changes since the last Take are returned, without those from before the start.
func TestTriggered(t *testing.T) {
	x := NewTracker(here)
	x.SetOptions(Options{Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	x.SetService(svc("web"))
	take := func() []time.Time {
		t.Helper()
		states := x.Take()
		if len(states) != 1 {
			t.Fatalf("%d states", len(states))
		}

		return states[0].Triggered
	}
	x.SetSlice(with(eps("web-1", "10.0.0.1"), triggered("2025-12-31T23:59:59Z")))
	if got := take(); got != nil {
		t.Errorf("triggers of before the start: %v", got)
	}

	x.SetSlice(with(eps("web-1", "10.0.0.2"), triggered("2026-01-02T03:04:05.678Z")))
	x.SetSlice(with(eps("web-2", "10.0.0.3"), triggered("no time")))
	x.SetSlice(with(eps("web-3", "10.0.0.4"), triggered("2026-01-02T03:04:06Z")))
	want := []time.Time{time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)}
	if got := take(); !slices.Equal(got, want) {
		t.Errorf("triggers %v, want %v", got, want)
	}

	for i := range 2 * maxTriggered {
		x.SetSlice(with(eps("web-1", fmt.Sprintf("10.0.1.%d", i%250)), triggered("2026-01-02T03:04:05Z")))
	}
	if got := take(); len(got) != maxTriggered {
		t.Errorf("%d triggers kept, want %d", len(got), maxTriggered)
	}

	x.SetSlice(with(eps("web-1", "10.0.0.9"), triggered("2026-01-02T03:04:05Z")))
	x.RemoveSlice("ns", "web-1")
	if got := take(); len(got) != 0 {
		t.Errorf("triggers %v after the slice went", got)
	}
}

// world creates objects with few names and addresses, so that services collide and slices move.
type world struct{ *rand.Rand }

func (w world) pick(all ...string) string { return all[w.IntN(len(all))] }

func (w world) service(name string) *corev1.Service {
	vips := []string{fmt.Sprintf("10.96.0.%d", 1+w.IntN(4))}
	if w.IntN(3) == 0 {
		vips = append(vips, fmt.Sprintf("fd00::%d", 1+w.IntN(3)))
	}
	if w.IntN(12) == 0 {
		vips = []string{"None"}
	}
	options := []serviceOption{ips(vips...), createdAt(int64(w.IntN(3)))}
	switch w.IntN(4) {
	case 0:
		options = append(options, ports("http 80 30001", "dns 53/udp"))
	case 1:
		options = append(options, ports("http 80", "admin 81"))
	}
	if w.IntN(2) == 0 {
		options = append(options, loadBalancer("203.0.113."+w.pick("1", "2")))
	}
	if w.IntN(3) == 0 {
		options = append(options, externalIPs("198.51.100.1", "203.0.113.1", "10.96.0.2"))
	}

	for _, o := range []serviceOption{externalLocal, internalLocal, affinity(30), ranges("192.0.2.0/24"),
		label("k8s-app", "kube-dns"),
		annotation("preserve-destination", "true"), typ(corev1.ServiceTypeExternalName)} {
		if w.IntN(7) == 0 {
			options = append(options, o)
		}
	}

	return svc(name, options...)
}

func (w world) slice(name string) *discoveryv1.EndpointSlice {
	v6 := w.IntN(4) == 0
	var all []string
	for range w.IntN(5) {
		addr := fmt.Sprintf("10.0.0.%d", 1+w.IntN(6))
		if v6 {
			addr = fmt.Sprintf("fd01::%d", 1+w.IntN(6))
		}
		all = append(all,
			strings.Join([]string{addr, w.pick("n1", "n2", "n3"),
				w.pick("", "", "notready", "terminating", "terminating unserving"),
				w.pick("", "zone=z1", "zone=z2"), w.pick("", "for=n1", "for=n2")}, " "))
	}
	return with(eps(name, all...), of(w.pick("s0", "s1", "s2", "s3")),
		to(w.pick("http 8080", "http 9090"), w.pick("dns 53/udp", "admin 81")))
}

// objects are a world's services and slices after some steps.
type objects struct {
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
	node     Node
}

func (o *objects) change(w world, x *Tracker) {
	name := fmt.Sprintf("s%d", w.IntN(4))
	switch w.IntN(8) {
	case 0, 1:
		o.services[name] = w.service(name)
		x.SetService(o.services[name])
	case 2:
		delete(o.services, name)
		x.RemoveService("ns", name)
	case 3:
		name = fmt.Sprintf("slice%d", w.IntN(6))
		delete(o.slices, name)
		x.RemoveSlice("ns", name)
	case 4:
		o.node.Zone = w.pick("", "z1", "z2")
		x.SetNode(o.node)
	default:
		name = fmt.Sprintf("slice%d", w.IntN(6))
		o.slices[name] = w.slice(name)
		x.SetSlice(o.slices[name])
	}
}

// scratch computes everything from scratch, in another order each time.
func (o *objects) scratch() map[string]State {
	x := NewTracker(o.node)
	for _, s := range o.services {
		x.SetService(s)
	}
	for _, s := range o.slices {
		x.SetSlice(s)
	}
	all := map[string]State{}
	merge(all, x.Take())
	return all
}

func merge(all map[string]State, states []State) {
	for _, s := range states {
		s.Triggered = nil
		if delete(all, s.Service); !s.Empty() {
			all[s.Service] = s
		}
	}
}

// walk changes objects at random and compares what the tracker returned step by step with a computation from scratch.
func walk(t *testing.T, seed uint64, steps int) {
	w := world{rand.New(rand.NewPCG(seed, 1))}
	o := &objects{services: map[string]*corev1.Service{}, slices: map[string]*discoveryv1.EndpointSlice{}, node: here}
	x := NewTracker(o.node)
	told := map[string]State{}

	for i := range steps {
		o.change(w, x)
		if w.IntN(3) == 0 {
			continue // several changes before one Take
		}
		merge(told, x.Take())
		if diff := cmp.Diff(o.scratch(), told, cmp.Comparer(func(a, b Key) bool { return a == b }),
			cmp.Comparer(func(a, b Backend) bool { return a == b })); diff != "" {
			t.Fatalf("seed %d, step %d: from scratch (-) and step by step (+) differ:\n%s", seed, i, diff)
		}
	}

	for name := range o.services {
		x.RemoveService("ns", name)
	}

	for name := range o.slices {
		x.RemoveSlice("ns", name)
	}

	merge(told, x.Take())
	if len(told)+len(x.entries)+len(x.slices)+len(x.index.owners)+len(x.index.contested) > 0 {
		t.Fatalf("seed %d: left over: told %v, entries %v, %d slices, index %v %v", seed,
			slices.Collect(maps.Keys(told)),
			slices.Collect(maps.Keys(x.entries)), len(x.slices), x.index.owners, x.index.contested)
	}
}

func TestTrackerMatchesScratch(t *testing.T) {
	for seed := range uint64(100) {
		walk(t, seed, 60)
	}
}

func FuzzTracker(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { walk(t, seed, 60) })
}

// TestConcurrentUse is for the race detector. The state at the end must be right.
func TestConcurrentUse(t *testing.T) {
	x := NewTracker(here)
	told := map[string]State{}
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			name := fmt.Sprintf("s%d", i)
			for n := range 200 {
				x.SetService(svc(name, ips(fmt.Sprintf("10.96.1.%d", i))))
				x.SetSlice(with(eps(name, fmt.Sprintf("10.0.%d.%d", i, n)), of(name)))
			}
		})
	}

	for range 50 {
		merge(told, x.Take())
	}
	wait.Wait()
	merge(told, x.Take())
	for i := range 4 {
		want := fmt.Sprintf("10.0.%d.199", i)
		if s := told[fmt.Sprintf("ns/s%d", i)]; len(s.Frontends) != 1 ||
			s.Frontends[0].Backends[0].Addr.String() != want {
			t.Errorf("service %d: %+v", i, s)
		}
	}
}
