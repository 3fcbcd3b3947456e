package keep

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// memory is a mode whose host is a map from destination to next hop.
type memory struct {
	mu      sync.Mutex
	routes  map[netip.Prefix]netip.Addr
	away    error // why the host cannot be observed
	refuses string
	watched int
	watch   chan error // ends a subscription
	changed func()
}

func newMemory() *memory {
	return &memory{routes: map[netip.Prefix]netip.Addr{}, watch: make(chan error)}
}

func (m *memory) Network(podnet.Options) (podnet.Network, error) { return podnet.Network{}, nil }

func (m *memory) Observe(context.Context) (map[netip.Prefix]netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.routes), m.away
}

func (m *memory) Plan(nodes []table.Node, seen map[netip.Prefix]netip.Addr) table.Plan[table.Change] {
	var routes []table.Route
	for dst, hop := range seen {
		routes = append(routes, table.Route{Dst: dst, NextHop: hop, Ours: true})
	}
	return table.Diff(table.Peers(nodes, table.Claims{Self: "self"}), routes)
}

func (m *memory) Apply(_ context.Context, c table.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Dst.String() == m.refuses {
		return errors.New("the host refuses " + m.refuses)
	}
	if c.Verb == table.Add {
		m.routes[c.Dst] = c.NextHop
	} else {
		delete(m.routes, c.Dst)
	}
	return nil
}

func (m *memory) Watch(ctx context.Context, changed func()) error {
	m.mu.Lock()
	m.watched++
	m.changed = changed
	m.mu.Unlock()
	changed()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-m.watch:
		return err
	}
}

// drop deletes a route as somebody else would.
func (m *memory) drop(dst string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.routes, netip.MustParsePrefix(dst))
}

// count returns how often the host was watched.
func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watched
}

// has returns the destinations that the host has, in order.
func (m *memory) has() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for dst := range m.routes {
		list = append(list, dst.String())
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

const both = "10.1.0.0/24 10.2.0.0/24"

func nodes() []table.Node {
	return []table.Node{
		{Name: "self", Addr: netip.MustParseAddr("10.0.0.9"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}},
		{Name: "a", Addr: netip.MustParseAddr("10.0.0.1"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}},
		{Name: "b", Addr: netip.MustParseAddr("10.0.0.2"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/24")}},
	}
}

// running starts a keeper in a bubble and ends it with the test.
func running(t *testing.T, m Mode[map[netip.Prefix]netip.Addr, table.Change],
	o Options) *Keeper[map[netip.Prefix]netip.Addr, table.Change] {
	k := New(m, o)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { stop(); done.Wait() })
	time.Sleep(settle + 1) // a second pass follows the subscription
	bubble.Wait()
	return k
}

func known() ([]table.Node, bool) { return nodes(), true }

func TestRepairs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newMemory()
		k := running(t, m, Options{Nodes: known, Period: time.Hour})
		if !k.Status().Complete() || m.has() != both {
			t.Fatalf("at the start: %+v, %s", k.Status(), m.has())
		}

		// A change that is reported is repaired once it has settled.
		m.drop("10.1.0.0/24")
		m.changed()
		time.Sleep(settle + 1)
		bubble.Wait()
		if m.has() != both || k.Status().Repairs != 1 {
			t.Errorf("after a change that was reported: %s, %d repairs", m.has(), k.Status().Repairs)
		}

		// One that is not reported waits for the period.
		m.drop("10.2.0.0/24")
		time.Sleep(time.Hour - time.Second)
		bubble.Wait()
		if m.has() == both {
			t.Error("a change that nobody reported was seen before the period ended")
		}
		time.Sleep(time.Second)
		bubble.Wait()
		if m.has() != both || k.Status().Repairs != 2 {
			t.Errorf("after the period: %s, %d repairs", m.has(), k.Status().Repairs)
		}
	})
}

// TestOneChangeIsWorkedOnAtOnce makes a pass without a wait if the last one is long ago.
func TestOneChangeIsWorkedOnAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newMemory()
		running(t, m, Options{Nodes: known, Period: time.Hour})
		time.Sleep(time.Minute)
		m.drop("10.1.0.0/24")
		m.changed()
		bubble.Wait()
		if m.has() != both {
			t.Errorf("the route is not back at once: %s", m.has())
		}
	})
}

func TestUnknownIsNotAbsent(t *testing.T) {
	m := newMemory()
	list, ok := nodes(), true
	k := New(m, Options{Nodes: func() ([]table.Node, bool) { return list, ok }})
	if k.Status().Known || k.Status().Complete() {
		t.Errorf("before the first pass: %+v", k.Status())
	}
	k.Sync(t.Context())

	list, ok = nil, false
	k.Sync(t.Context())
	if s := k.Status(); m.has() != both || s.Error == "" || s.Complete() || s.Present != 2 {
		t.Errorf("without nodes: %s, %+v", m.has(), s)
	}

	list, ok = nodes()[:1], true
	m.away = errors.New("the host does not answer")
	k.Sync(t.Context())
	if s := k.Status(); m.has() != both || s.Error != "the host does not answer" {
		t.Errorf("without the host: %s, %+v", m.has(), s)
	}

	m.away = nil
	k.Sync(t.Context())
	if s := k.Status(); m.has() != "" || !s.Complete() {
		t.Errorf("when both are known: %s, %+v", m.has(), s)
	}
}

// One failure does not stop the other changes, and belongs to its route.
func TestFailureOfOneRoute(t *testing.T) {
	m := newMemory()
	m.refuses = "10.1.0.0/24"
	k := New(m, Options{Nodes: known})
	k.Sync(t.Context())
	s := k.Status()
	if m.has() != "10.2.0.0/24" || s.Present != 1 || s.Wanted != 2 || s.Complete() {
		t.Fatalf("%s, %+v", m.has(), s)
	}
	if r := s.Routes[0]; r.State != string(table.Missing) || r.Reason != "the host refuses 10.1.0.0/24" {
		t.Errorf("status of the route that failed: %+v", r)
	}

	m.refuses = ""
	k.Sync(t.Context())
	if s := k.Status(); !s.Complete() || s.Repairs != 0 || m.has() != both {
		t.Errorf("after the failure: %+v, %s", s, m.has())
	}
}

func TestWatchesAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newMemory()
		running(t, m, Options{Nodes: known})
		for want := 2; want < 5; want++ {
			m.watch <- errors.New("the subscription ended")
			time.Sleep(5*time.Second - 1)
			bubble.Wait()
			if watched := m.count(); watched != want-1 {
				t.Fatalf("watched %d times before the wait was over, want %d", watched, want-1)
			}
			time.Sleep(time.Nanosecond)
			bubble.Wait()
			if watched := m.count(); watched != want {
				t.Fatalf("watched %d times, want %d", watched, want)
			}
		}
	})
}

// While no subscription is there, what happens to the host is found within a second.
func TestLooksOftenWithoutWatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newMemory()
		running(t, m, Options{Nodes: known})
		m.watch <- errors.New("the subscription ended")
		time.Sleep(settle + 1)
		bubble.Wait()

		m.drop("10.1.0.0/24")
		time.Sleep(shortPeriod)
		bubble.Wait()
		if m.has() != both {
			t.Errorf("%s after %s", m.has(), shortPeriod)
		}
	})
}

// Routes stay when the keeper ends.
func TestRoutesStay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, statuses := newMemory(), 0
		ctx, stop := context.WithCancel(t.Context())
		k := New(m, Options{Nodes: known, OnStatus: func(Status) { statuses++ }})
		var done sync.WaitGroup
		done.Go(func() { k.Run(ctx) })
		bubble.Wait()
		stop()
		done.Wait()
		if m.has() != both || statuses == 0 {
			t.Errorf("left %q after %d passes", m.has(), statuses)
		}
	})
}

// The log of a plan for a large cluster leaves out routes that are present, and no problem.
func TestBriefKeepsProblems(t *testing.T) {
	plan := table.Plan[table.Change]{Problems: []string{"peer 10.0.0.1 has no session"}}
	for range logLines + 1 {
		plan.Wanted = append(plan.Wanted, table.Wanted{Node: "a", State: table.Present})
	}
	if got := brief(plan); got != "problem: peer 10.0.0.1 has no session\n(shortened)\n" {
		t.Error(got)
	}
}
