package relay

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

func TestBalancerAffinity(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBalancer(nil, func() time.Time { return now })
	x, y, z := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:1"),
		netip.MustParseAddrPort("10.0.0.3:1")
	all := []netip.AddrPort{x, y, z}
	b.Set(Config{Backends: all, Affinity: 10 * time.Second})
	client, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	pick := func(c netip.Addr, tried ...netip.AddrPort) netip.AddrPort {
		t.Helper()
		got, ok := b.Pick(c, tried)
		if !ok {
			t.Fatal("no backend")
		}

		return got
	}
	first := pick(client)
	if got := pick(other); got == first {
		t.Error("the second client has the first one's backend, though two were free")
	}

	for range 5 { // each connection restarts the time: 45 s in all
		now = now.Add(9 * time.Second)
		if got := pick(client); got != first {
			t.Fatalf("moved from %v to %v", first, got)
		}
	}

	now = now.Add(10 * time.Second)
	if got := pick(client); got == first {
		t.Errorf("still with %v after the timeout, though it is another one's turn", got)
	}
	// A client does not return to a backend that refused.
	before := pick(client)
	after := pick(client, before)
	if after == before || pick(client) != after {
		t.Errorf("%v was tried in vain, then %v, then %v", before, after, pick(client))
	}
	// The backend is removed: its client gets another one and stays there. Clients of other backends stay.
	stays := pick(other)
	b.Set(Config{Backends: []netip.AddrPort{stays}, Affinity: 10 * time.Second})
	if got := pick(client); got != stays {
		t.Errorf("with %v, which is gone", got)
	}

	b.Set(Config{Backends: all, Affinity: 10 * time.Second})
	if got := pick(client); got != stays {
		t.Errorf("back to %v", got)
	}

	b.Set(Config{Backends: all})
	if p, q := pick(client), pick(client); p == q {
		t.Error("without affinity the same backend twice")
	}
	if _, ok := b.Pick(client, all); ok {
		t.Error("a backend that was tried is chosen again")
	}
}

// TestBalancerForgets: the number of remembered clients is bounded, and expired ones are forgotten first.
func TestBalancerForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBalancer(nil, func() time.Time { return now })
	b.Set(Config{Backends: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:1")}, Affinity: time.Minute})
	addr := netip.MustParseAddr("10.0.0.0")
	for range maxSticky + 10 {
		b.Pick(addr, nil)
		addr = addr.Next()
	}
	if len(b.sticky) > maxSticky {
		t.Errorf("%d clients", len(b.sticky))
	}
	now = now.Add(2 * time.Minute)
	b.Pick(netip.MustParseAddr("192.0.2.1"), nil)
	if len(b.sticky) != 1 {
		t.Errorf("%d clients, of which one is left", len(b.sticky))
	}
}

// TestBalancerClients: which backends a client can get depends on its address.
func TestBalancerClients(t *testing.T) {
	pods := netip.MustParsePrefix("10.244.0.0/16")
	b := newBalancer(pods.Contains, time.Now)
	local, remote := netip.MustParseAddrPort("10.244.1.1:80"), netip.MustParseAddrPort("10.244.2.1:80")
	pod, outside := netip.MustParseAddr("10.244.1.9"), netip.MustParseAddr("192.0.2.1")
	picks := func(client netip.Addr) (got []netip.AddrPort) {
		for range 2 {
			if backend, ok := b.Pick(client, got); ok {
				got = append(got, backend)
			}
		}

		return got
	}

	for _, c := range []struct {
		name            string
		config          Config
		inside, outside int
	}{
		{"one list for all", Config{Backends: []netip.AddrPort{local, remote}}, 2, 2},
		{"local only for others", Config{Backends: []netip.AddrPort{local}, Inside: []netip.AddrPort{local, remote}}, 2,
			1},
		{"none for others", Config{Inside: []netip.AddrPort{remote}}, 1, 0},
		{"none inside", Config{Backends: []netip.AddrPort{local}, Inside: []netip.AddrPort{}}, 0, 1},
		{"sources without pods", Config{Backends: []netip.AddrPort{local},
			Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, 0, 1},
		{"sources without others", Config{Backends: []netip.AddrPort{local}, Sources: []netip.Prefix{pods}}, 1, 0},
		{"affinity", Config{Backends: []netip.AddrPort{local}, Inside: []netip.AddrPort{remote}, Affinity: time.Hour},
			1, 1},
	} {
		b.Set(c.config)
		if in, out := picks(pod), picks(outside); len(in) != c.inside || len(out) != c.outside {
			t.Errorf("%s: %v for a pod, %v for others", c.name, in, out)
		}
	}
}

// TestConfigEqual: every field counts.
func TestConfigEqual(t *testing.T) {
	x := netip.MustParseAddrPort("10.0.0.1:1")
	base := Config{Backends: []netip.AddrPort{x}}
	for _, other := range []Config{
		{}, {Backends: []netip.AddrPort{x}, Inside: []netip.AddrPort{}}, {Backends: []netip.AddrPort{x}, Affinity: 1},
		{Backends: []netip.AddrPort{x}, Sources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	} {
		if base.Equal(other) {
			t.Errorf("%+v equals %+v", base, other)
		}
	}
	if n := reflect.TypeFor[Config]().NumField(); n != 4 {
		t.Errorf("Config has %d fields: Equal and this test know 4", n)
	}
}

// TestBalancerRefused: a backend that refused comes last for a while, and is tried again if it is the only one.
func TestBalancerRefused(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBalancer(nil, func() time.Time { return now })
	x, y := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:1")
	b.Set(Config{Backends: []netip.AddrPort{x, y}})
	client := netip.MustParseAddr("192.0.2.1")
	picks := func() map[netip.AddrPort]int {
		got := map[netip.AddrPort]int{}
		for range 10 {
			backend, _ := b.Pick(client, nil)
			got[backend]++
		}

		return got
	}
	b.Refused(x)
	if got := picks(); got[y] != 10 {
		t.Errorf("after a refusal: %v", got)
	}
	if got, ok := b.Pick(client, []netip.AddrPort{y}); !ok || got != x {
		t.Errorf("when nothing else is left: %v, %v", got, ok)
	}

	b.Refused(y)
	if got := picks(); got[x] != 5 || got[y] != 5 {
		t.Errorf("when all refused: %v", got)
	}

	now = now.Add(penalty)
	if got := picks(); got[x] != 5 || len(b.penalized) != 0 {
		t.Errorf("afterwards: %v, %v", got, b.penalized)
	}

	b.Set(Config{Backends: []netip.AddrPort{x, y}, Affinity: time.Hour})
	first, _ := b.Pick(client, nil)
	b.Refused(first)
	if second, _ := b.Pick(client, nil); second == first {
		t.Error("affinity to a backend that refused")
	}

	b.Set(Config{})
	if b.Refused(x); len(b.penalized) != 0 {
		t.Errorf("remembered of backends that are gone: %v", b.penalized)
	}
}
