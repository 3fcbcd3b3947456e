package hostroutes

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

var pods = netip.MustParsePrefix("10.244.0.0/16")

func route(dst, hop string, metric uint32) Route {
	return Route{Dst: netip.MustParsePrefix(dst), NextHop: netip.MustParseAddr(hop), Metric: metric}
}

func adapter(name, addr string, routes ...Route) Adapter {
	return Adapter{Name: name, Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}, Routes: routes}
}

// onLink are the routes that Windows makes for an adapter with 10.99.0.21/24.
var onLink = []Route{
	route("10.99.0.0/24", "0.0.0.0", 256), route("10.99.0.21/32", "0.0.0.0", 256),
	route("10.99.0.255/32", "0.0.0.0", 256),
	route("224.0.0.0/4", "0.0.0.0", 256), route("255.255.255.255/32", "0.0.0.0", 256),
}

var (
	gateway  = route("0.0.0.0/0", "10.99.0.1", 0)
	private  = route("192.168.50.0/24", "10.99.0.9", 7)
	metadata = route("169.254.169.254/32", "0.0.0.0", 0) // as clouds have it
	podRoute = route("10.244.3.0/24", "10.99.0.23", 0)
)

func TestWorth(t *testing.T) {
	list := []Adapter{
		adapter("Ethernet", "10.99.0.21/24", append(slices.Clone(onLink), gateway, private, metadata, podRoute)...),
		adapter("Ethernet", "fd99::21/64", route("fd00:10::/64", "fd99::23", 0), route("fd50::/64", "fd99::9", 0)),
		adapter("vEthernet (porthole_ep)", "10.244.1.2/24", route("10.244.1.0/24", "0.0.0.0", 256),
			route("0.0.0.0/0", "10.244.1.1", 0)),
		adapter("Ethernet 2", "10.98.0.5/24", route("10.98.0.0/24", "0.0.0.0", 256)),
	}
	got := Worth(list, pods, netip.MustParsePrefix("fd00:10::/56"), netip.Prefix{})
	if len(got) != 2 || len(got[1].Routes) != 1 || got[1].Routes[0].Dst.String() != "fd50::/64" ||
		got[0].Name != "Ethernet" || !slices.Equal(got[0].Routes, []Route{gateway, private, metadata}) {
		t.Errorf("worth saving: %+v", got)
	}
}

func TestPlan(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	saved := Saved{At: at, Adapters: []Adapter{adapter("Ethernet", "10.99.0.21/24", gateway, private)}}
	switched := adapter("vEthernet (Ethernet)", "10.99.0.21/24", gateway)
	all := adapter("vEthernet (Ethernet)", "10.99.0.21/24", route("0.0.0.0/0", "10.99.0.1", 25), private)

	for name, c := range map[string]struct {
		after time.Duration
		list  []Adapter
		want  string
	}{
		"nothing is lost": {0, []Adapter{all}, ""},
		"the address is away": {time.Second, nil,
			"route 0.0.0.0/0 via 10.99.0.1 metric 0: no adapter has the address 10.99.0.21 of Ethernet\nroute 192.168.50.0/24 via 10.99.0.9 metric 7: no adapter has the address 10.99.0.21 of Ethernet\n"},
		"one is lost": {time.Second, []Adapter{switched},
			"add route 192.168.50.0/24 via 10.99.0.9 metric 7 to the adapter with 10.99.0.21\n"},
		"all is back for long": {Guard, []Adapter{all}, "forget\n"},
		"one is lost for long": {Guard, []Adapter{switched},
			"add route 192.168.50.0/24 via 10.99.0.9 metric 7 to the adapter with 10.99.0.21\n"},
		"one cannot be put back": {Limit, []Adapter{switched},
			"add route 192.168.50.0/24 via 10.99.0.9 metric 7 to the adapter with 10.99.0.21\nforget\n"},
		"the clock was set to long ago": {-Guard, []Adapter{all}, "forget\n"},
		"a route of others beside it is left": {time.Second,
			[]Adapter{adapter("vEthernet (Ethernet)", "10.99.0.21/24", gateway, private, metadata)}, ""},
		"the adapter of another address is no": {time.Second, []Adapter{all, adapter("Ethernet 2", "10.98.0.5/24")},
			""},
	} {
		if got := MakePlan(saved, at.Add(c.after), c.list).String(); got != c.want {
			t.Errorf("%s: planned\n%swant\n%s", name, got, c.want)
		}
	}
}

// A second Save while routes are lost keeps those of the first.
func TestMerge(t *testing.T) {
	older := Saved{Adapters: []Adapter{adapter("Ethernet", "10.99.0.21/24", gateway, private),
		adapter("Ethernet 2", "10.98.0.5/24", metadata)}}
	got := Merge(older, []Adapter{adapter("vEthernet (Ethernet)", "10.99.0.21/24", gateway)}, time.Time{})
	if len(got.Adapters) != 2 || !slices.Equal(got.Adapters[0].Routes, []Route{gateway, private}) ||
		got.Adapters[1].Name != "Ethernet 2" {
		t.Errorf("%+v", got)
	}
}

// memory is a host in memory.
type memory struct {
	mu      sync.Mutex // guards list and added: the Keeper reads while HNS changes
	list    []Adapter
	added   int
	err     error
	refuses bool
}

func (m *memory) List() ([]Adapter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(m.list)
	for i := range list {
		list[i].Routes = slices.Clone(list[i].Routes)
	}
	return list, m.err
}

func (m *memory) Add(addr netip.Addr, r Route) error {
	if m.refuses {
		return errors.New("the parameter is incorrect")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.list {
		if m.list[i].has(addr) {
			m.list[i].Routes = append(m.list[i].Routes, r)
			m.added++
			return nil
		}
	}
	return errors.New("no such adapter")
}

func (m *memory) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

// takeOver is what HNS does to the card: for a while nobody has the address, then another adapter has it, without
// routes.
func (m *memory) takeOver() { m.set() }
func (m *memory) giveBack() { m.set(adapter("vEthernet (Ethernet)", "10.99.0.21/24", onLink...)) }

func (m *memory) set(list ...Adapter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = list
}

// Routes come back after a takeover, whichever process runs then.
func TestKeeper(t *testing.T) {
	for _, killed := range []string{"never", "after the save", "while the address is away",
		"before the routes are back"} {
		t.Run(killed, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				m := &memory{list: []Adapter{adapter("Ethernet", "10.99.0.21/24",
					append(slices.Clone(onLink), gateway, private)...)}}
				var stop func()
				var k *Keeper
				start := func() {
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan struct{})
					k = New(m, dir, pods)
					go func() { defer close(done); k.Run(ctx) }()
					stop = func() { cancel(); <-done }
				}
				restart := func(when string) {
					if when == killed {
						stop()
						start()
					}
				}

				start()
				must(t, k.Save(t.Context()))
				restart("after the save")
				m.takeOver()
				time.Sleep(3 * time.Second)
				bubble.Wait()
				if s := k.Status(); s.Saved != 2 || len(s.Problems) != 2 ||
					!strings.Contains(s.Problems[1], "192.168.50.0/24") {
					t.Errorf("while the address is away: %+v", s)
				}
				restart("while the address is away")
				if killed == "before the routes are back" {
					stop()
				}
				m.giveBack()
				if killed == "before the routes are back" {
					start()
				}
				time.Sleep(time.Second)
				bubble.Wait()
				if routes := m.list[0].Routes[len(onLink):]; !slices.Equal(routes, []Route{gateway, private}) ||
					m.added != 2 {
					t.Errorf("the routes are %v, added %d", routes, m.added)
				}
				if s := k.Status(); len(s.Problems) > 0 {
					t.Errorf("afterwards: %+v", s)
				}

				time.Sleep(Guard)
				bubble.Wait()
				if _, err := os.Stat(filepath.Join(dir, FileName)); !os.IsNotExist(err) || k.Status().Saved != 0 ||
					m.added != 2 {
					t.Errorf("after the guard: %v, %+v, added %d", err, k.Status(), m.added)
				}
				stop()
			})
		})
	}
}

// What cannot be read is not saved, and what cannot be put back is a problem.
func TestProblems(t *testing.T) {
	m := &memory{err: errors.New("access denied")}
	k := New(m, t.TempDir(), pods)
	if err := k.Save(t.Context()); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("%v", err)
	}
	m.err, m.list = nil, []Adapter{adapter("Ethernet", "10.99.0.21/24", private)}
	must(t, k.Save(t.Context()))
	m.giveBack()
	m.refuses = true
	k.loop.Sync(t.Context())
	if s := k.Status(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "192.168.50.0/24 via 10.99.0.9") ||
		!strings.Contains(s.Problems[0], "the parameter is incorrect") {
		t.Errorf("%+v", s)
	}

	file := filepath.Join(t.TempDir(), FileName)
	must(t, os.WriteFile(file, []byte("{broken"), 0o600))
	k = New(m, filepath.Dir(file), pods)
	must(t, k.Save(t.Context()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file that somebody edited may hold an adapter without addresses: its routes are lost until they are given up.
func TestAdapterWithoutAddresses(t *testing.T) {
	now := time.Now()
	saved := Merge(
		Saved{Adapters: []Adapter{{Name: "Ethernet",
			Routes: []Route{{Dst: netip.MustParsePrefix("10.9.0.0/16"), NextHop: netip.MustParseAddr("10.99.0.1")}}}}},
		nil, now)
	if p := MakePlan(saved, now, nil); len(p.Lost) != 1 || p.Lost[0].Ready || p.Forget {
		t.Errorf("%+v", p)
	}
}
