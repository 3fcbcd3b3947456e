package keep

import (
	"net/netip"
	"slices"
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

// TestMet makes the routes of new nodes although the last pass has only just been, and leaves everything else to the next one.
func TestMet(t *testing.T) {
	for _, c := range []struct {
		name, dst        string
		prompt           bool
		soon, afterwards string
	}{
		{"a new node", "10.3.0.0/24", true, both + " 10.3.0.0/24", both + " 10.3.0.0/24"},
		{"a range that contains another", "10.2.0.0/16", true, both, "10.1.0.0/24"},
		{"a mode that needs a pass", "10.3.0.0/24", false, both, both + " 10.3.0.0/24"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, cluster := newMemory(), &members{list: nodes()}
				k := running(t, m, Options{Nodes: cluster.all, Period: time.Hour, Prompt: c.prompt})
				k.Changed() // so that the next pass waits until this one has settled
				synctest.Wait()

				n := table.Node{Name: "c", Addr: netip.MustParseAddr("10.0.0.3"), PodCIDRs: []netip.Prefix{netip.MustParsePrefix(c.dst)}}
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
					t.Errorf("after a pass: %s with %d repairs, want %s with none", got, k.Status().Repairs, c.afterwards)
				}
			})
		})
	}
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
