package kubelet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/bubble"
)

// up describes an address of a Windows host: "interface address/bits [metric of the default route]".
func up(iface, addr string, metric ...uint32) platform.Uplink {
	p := netip.MustParsePrefix(addr)
	u := platform.Uplink{HostAddress: platform.HostAddress{Interface: iface, Addr: p.Addr(), Bits: p.Bits()}}
	if len(metric) > 0 {
		u.Default, u.Metric = true, metric[0]
	}
	return u
}

func endpoint(u platform.Uplink) platform.Uplink { u.Endpoint = true; return u }

// TestChooseAddress has the adapters of real Windows nodes: pod network, NAT network and cards, in the order of
// GetAdaptersAddresses.
func TestChooseAddress(t *testing.T) {
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}
	ep := endpoint(up("vEthernet (porthole_ep)", "10.244.3.2/24", 1))
	nat := endpoint(up("vEthernet (nat)", "172.22.16.1/20"))
	node := up("vEthernet (Ethernet)", "10.99.0.11/24", 25)
	storage := up("Ethernet 2", "192.168.50.4/24")
	loopback := up("Loopback Pseudo-Interface 1", "127.0.0.1/8")
	apipa := up("Ethernet", "169.254.7.7/16")
	backup := up("Ethernet 3", "10.50.0.7/24", 100)
	none := ""

	for name, c := range map[string]struct {
		have    []platform.Uplink
		pods    []netip.Prefix
		now     string
		patient bool
		want    string
	}{
		"the endpoint of the pod network has a default route": {have: []platform.Uplink{ep, nat, node, loopback},
			pods: pods, want: "10.99.0.11"},
		"the pod range is not known yet": {have: []platform.Uplink{ep, nat, node},
			want: "10.99.0.11"},
		"only the pod network and NAT so far": {have: []platform.Uplink{ep, nat, loopback}, pods: pods,
			want: none},
		"DHCP has not answered": {have: []platform.Uplink{apipa, loopback}, patient: true,
			want: none},
		"a card without a way out is first": {have: []platform.Uplink{storage, node},
			want: "10.99.0.11"},
		"only a card without a way out": {have: []platform.Uplink{storage, nat}, want: none},
		"and it will not get one": {have: []platform.Uplink{nat, storage}, patient: true,
			want: "192.168.50.4"},
		"two ways out": {have: []platform.Uplink{backup, node},
			want: "10.99.0.11"},
		"two ways out, the node has the worse one": {have: []platform.Uplink{backup, node}, now: "10.50.0.7",
			want: "10.50.0.7"},
		"the node's address lies in the pod range by mistake": {have: []platform.Uplink{ep, node}, pods: pods,
			now: "10.244.3.2", want: "10.99.0.11"},
		"IPv6 beside IPv4": {have: []platform.Uplink{up("Ethernet", "fd00::5/64", 1),
			node}, want: "10.99.0.11"},
		"IPv6 only": {have: []platform.Uplink{up("Ethernet", "fe80::5/64", 1),
			up("Ethernet", "fd00::5/64", 1)}, want: "fd00::5"},
		"a switch that an administrator made": {have: []platform.Uplink{nat,
			endpoint(up("vEthernet (External)", "10.1.1.1/24", 5))}, want: "10.1.1.1"},
	} {
		for range 2 { // in either order
			got, ok := chooseAddress(c.have, c.pods, []string{c.now}, c.patient)
			if text := got.String(); ok != (c.want != none) || ok && text != c.want {
				t.Errorf("%s: %s %v, want %q", name, text, ok, c.want)
			}
			slices.Reverse(c.have)
		}
	}
}

// fakeHost is a host whose addresses a test changes. Several may watch it.
type fakeHost struct {
	mu      sync.Mutex
	have    []platform.Uplink
	changed []func()
}

func (h *fakeHost) set(have ...platform.Uplink) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.have = have
	for _, changed := range h.changed {
		changed()
	}
}

func (h *fakeHost) uplinks() ([]platform.Uplink, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.have, nil
}

func (h *fakeHost) watch(ctx context.Context, changed func()) error {
	h.mu.Lock()
	h.changed = append(h.changed, changed)
	h.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (h *fakeHost) windows() addressHost {
	return addressHost{
		uplinks: h.uplinks,
		lookUp:  func(string) net.IP { return net.IPv4(10, 244, 3, 2) }, // what Windows says first
		here:    func(net.IP) bool { return true },
		routed:  func(bool) (net.IP, error) { return nil, errors.New("no route") },
		watch:   h.watch}
}

// TestAddressComesLate: DHCP answers 20 s after the start. The kubelet waits and has the address as soon as the host
// has it.
func TestAddressComesLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		host := &fakeHost{have: []platform.Uplink{up("Ethernet", "169.254.9.9/16")}}
		a, err := newNodeAddresses("", "win01", host.windows())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		begin := time.Now()
		go func() { done <- a.wait(t.Context()) }()
		time.Sleep(20 * time.Second) // of the bubble
		host.set(up("Ethernet", "10.99.0.11/24", 25))
		if err := <-done; err != nil || time.Since(begin) > 21*time.Second ||
			!slices.Equal(a.list(), []string{"10.99.0.11"}) {
			t.Errorf("after %v: %v, error %v", time.Since(begin), a.list(), err)
		}
	})
}

// TestAddressFollowsTheHost: the pod range becomes known, a switch takes the card over, the address changes, and is
// gone for a while.
func TestAddressFollowsTheHost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ep := endpoint(up("vEthernet (porthole_ep)", "10.244.3.2/24", 1))
		node := up("Ethernet", "10.99.0.11/24", 25)
		host := &fakeHost{have: []platform.Uplink{ep}}
		a, err := newNodeAddresses("", "win01", host.windows())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		if err := a.wait(ctx); err != nil {
			t.Fatal(err)
		}
		changes := 0
		go a.keep(ctx, func() { changes++ })
		want := func(addr string, after int) {
			t.Helper()
			time.Sleep(10 * time.Second) // of the bubble
			bubble.Wait()
			if got := strings.Join(a.list(), " "); got != addr || changes != after {
				t.Errorf("address %s after %d changes, want %s after %d", got, changes, addr, after)
			}
		}

		want("10.244.3.2", 0) // the only one with a default route, as long as nobody says what it is
		host.set(ep, node)
		want("10.99.0.11", 1)
		a.avoid("10.244.3.0/24")
		host.set(ep)
		want("10.99.0.11", 1) // the switch is taking the card over
		host.set(ep, up("vEthernet (Ethernet)", "10.99.0.11/24", 15))
		want("10.99.0.11", 1)
		host.set(ep, up("vEthernet (Ethernet)", "10.99.0.77/24", 15))
		want("10.99.0.77", 2)
		stop()
	})
}

func TestGivenAddresses(t *testing.T) {
	host := (&fakeHost{}).windows()
	for _, c := range []struct{ text, name, want string }{
		{"192.0.2.7", "n", "192.0.2.7"},
		{"192.0.2.7, fd00::7", "n", "192.0.2.7 fd00::7"},
		{"", "192.0.2.8", "192.0.2.8"},
	} {
		a, err := newNodeAddresses(c.text, c.name, host)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.wait(t.Context()); err != nil || strings.Join(a.list(), " ") != c.want {
			t.Errorf("%q for %q: %v, error %v", c.text, c.name, a.list(), err)
		}
		a.keep(t.Context(), func() { t.Error("a given address changed") }) // returns at once
	}
	for _, text := range []string{"nonsense", "127.0.0.1", "10.0.0.1,10.0.0.2"} {
		if _, err := newNodeAddresses(text, "n", host); err == nil || !strings.Contains(err.Error(), "--node-ip") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestNameInDNS: systems other than Windows ask DNS for the host's name, and keep an address that the host still has.
func TestNameInDNS(t *testing.T) {
	host, answer, here := (&fakeHost{}).windows(), net.IPv4(192, 0, 2, 5), true
	host.uplinks = func() ([]platform.Uplink, error) { return nil, errors.ErrUnsupported }
	host.lookUp = func(string) net.IP { return answer }
	host.here = func(net.IP) bool { return here }
	host.routed = func(v6 bool) (net.IP, error) { return net.IPv4(192, 0, 2, 9), nil }
	a, err := newNodeAddresses("", "lin01", host)
	if err != nil {
		t.Fatal(err)
	}
	want := func(addr string) {
		t.Helper()
		if err := a.find(false); err != nil || !slices.Equal(a.list(), []string{addr}) {
			t.Errorf("%v, error %v; want %s", a.list(), err, addr)
		}
	}
	want("192.0.2.5")
	answer = nil // DNS does not answer for once
	want("192.0.2.5")
	here = false // the host has another address
	want("192.0.2.9")
}
