package keep

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"porthole.dev/porthole/routes/table"
)

// members are the nodes of a cluster that a test changes.
type members struct {
	mu   sync.Mutex
	list []table.Node
}

func (m *members) all() ([]table.Node, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list), true
}

func (m *members) add(n table.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, n)
}

// TestMet makes the routes of new nodes although the last pass has only just been, and leaves everything else to the
// next one.
func TestMet(t *testing.T) {
	for _, c := range []struct {
		name, dst        string
		prompt           bool
		soon, afterwards string
	}{
		{"a new node", "10.3.0.0/24", true, both + " 10.3.0.0/24", both + " 10.3.0.0/24"},
		{"a range that contains another", "10.2.0.0/16", true, both, both},
		{"a mode that needs a pass", "10.3.0.0/24", false, both, both + " 10.3.0.0/24"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, cluster := newMemory(), &members{list: nodes()}
				k := running(t, m, Options{Nodes: cluster.all, Period: time.Hour, Prompt: c.prompt})
				k.Changed() // so that the next pass waits until this one has settled
				synctest.Wait()

				n := table.Node{Name: "c", Addr: netip.MustParseAddr("10.0.0.3"),
					PodCIDRs: []netip.Prefix{netip.MustParsePrefix(c.dst)}}
				cluster.add(n)
				k.Met(n)
				k.Changed()
				synctest.Wait()
				if got := m.has(); got != c.soon {
					t.Errorf("at once: %s, want %s", got, c.soon)
				}

				time.Sleep(settle + 1)
				synctest.Wait()
				if got := m.has(); got != c.afterwards || k.Status().Repairs != 0 {
					t.Errorf("after a pass: %s with %d repairs, want %s with none", got, k.Status().Repairs,
						c.afterwards)
				}
			})
		})
	}
}

// hearing is a memory that hears of nodes.
type hearing struct {
	*memory
	tell  func()
	worth bool // Heard returns something
}

func (h *hearing) Hear(heard func()) { h.tell = heard }

func (h *hearing) Heard(seen map[netip.Prefix]netip.Addr) (map[netip.Prefix]netip.Addr, bool) {
	return seen, h.worth
}

func (h *hearing) PlanHeard(nodes []table.Node, news map[netip.Prefix]netip.Addr) []table.Change {
	return h.Plan(nodes, news).Ops
}

// TestHeard makes routes of which a mode has heard although the last pass has only just been, if the mode thinks that
// it is worth it, and leaves what was there before to the next one.
func TestHeard(t *testing.T) {
	const more = both + " 10.3.0.0/24"
	for worth, soon := range map[bool]string{true: more, false: both} {
		synctest.Test(t, func(t *testing.T) {
			m, cluster := &hearing{memory: newMemory(), worth: worth}, &members{list: nodes()}
			k := running(t, m, Options{Nodes: cluster.all, Period: time.Hour})
			k.Changed() // so that the next pass waits until this one has settled
			synctest.Wait()

			cluster.add(table.Node{Name: "c", Addr: netip.MustParseAddr("10.0.0.3"),
				PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.3.0.0/24")}})
			m.tell()
			k.Changed()
			synctest.Wait()
			if got := m.has(); got != soon {
				t.Errorf("worth it: %t; at once: %s, want %s", worth, got, soon)
			}
			time.Sleep(settle + 1)
			synctest.Wait()
			if got := m.has(); got != more || k.Status().Repairs != 0 {
				t.Errorf("worth it: %t; after a pass: %s with %d repairs, want %s with none", worth, got,
					k.Status().Repairs, more)
			}

			m.drop("10.1.0.0/24")
			m.tell()
			synctest.Wait()
			if got := m.has(); got == more {
				t.Error("a route that was there before is made without a pass")
			}
		})
	}
}

// TestInline: single changes are made before Met returns, those of a burst and those during a pass soon after it.
func TestInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, cluster := newMemory(), &members{list: nodes()}
		k := running(t, m, Options{Nodes: cluster.all, Period: time.Hour, Prompt: true, Inline: true})
		for i := range 3 * inlineBurst {
			n := table.Node{Name: fmt.Sprint("c", i), Addr: netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}),
				PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 3, byte(i), 0}), 24)}}
			cluster.add(n)
			k.Met(n)
		}
		if _, made := m.count(); made != inlineBurst {
			t.Errorf("%d of a burst were made at once, want %d", made, inlineBurst)
		}
		synctest.Wait()
		if got := len(strings.Fields(m.has())); got != 2+3*inlineBurst {
			t.Errorf("then there are %d routes: %s", got, m.has())
		}

		time.Sleep(burstPeriod + 1)
		n := table.Node{Name: "d", Addr: netip.MustParseAddr("10.0.2.1"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.4.0.0/24")}}
		cluster.add(n)
		k.passing.Lock() // as a pass does
		k.Met(n)
		if strings.Contains(m.has(), "10.4.0.0/24") {
			t.Error("a route was made during a pass")
		}
		k.passing.Unlock()
		synctest.Wait()
		if !strings.Contains(m.has(), "10.4.0.0/24") {
			t.Errorf("after the pass: %s", m.has())
		}
	})
}

// TestMetLeavesRepairs leaves a route that was lost to the pass, which counts it.
func TestMetLeavesRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := running(t, m, Options{Nodes: known, Period: time.Hour, Prompt: true})
		m.drop("10.1.0.0/24")
		k.Met(nodes()[1])
		synctest.Wait()
		if m.has() == both {
			t.Error("a route that was there before is made without a pass")
		}
		k.Changed()
		time.Sleep(settle + 1)
		synctest.Wait()
		if m.has() != both || k.Status().Repairs != 1 {
			t.Errorf("after a pass: %s with %d repairs, want one", m.has(), k.Status().Repairs)
		}
	})
}

// TestOneChangeIsWorkedOnAtOnce makes a pass without a wait if the last one is long ago.
func TestOneChangeIsWorkedOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		running(t, m, Options{Nodes: known, Period: time.Hour})
		time.Sleep(time.Minute)
		m.drop("10.1.0.0/24")
		m.changed()
		synctest.Wait()
		if m.has() != both {
			t.Errorf("the route is not back at once: %s", m.has())
		}
	})
}
