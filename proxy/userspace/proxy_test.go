package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

// loopbackHost has two addresses that every system can listen on; nothing is added to it.
type loopbackHost struct{}

func (loopbackHost) List() ([]string, []platform.HostAddress, error) {
	return []string{"lo"}, []platform.HostAddress{{Interface: "lo", Addr: addr("127.0.0.1"), Bits: 8},
		{Interface: "lo", Addr: addr("127.0.0.2"), Bits: 8}}, nil
}

func (loopbackHost) Add(_ string, a netip.Addr) error    { return errors.New("add " + a.String()) }
func (loopbackHost) Remove(_ string, a netip.Addr) error { return errors.New("remove " + a.String()) }

func (loopbackHost) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// TestPrimary: node ports are served at the primary addresses only: nowhere until these are known, and at the last
// known ones if they cannot be read any more.
func TestPrimary(t *testing.T) {
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	port := free.Addr().(*net.TCPAddr).AddrPort().Port()
	free.Close()
	web := front("a/web", fmt.Sprintf("node:%d/TCP", port), "127.0.0.1:9")
	var primary []netip.Addr
	fails := errors.New("not known")
	p := New(Options{Interface: "lo", StateFile: filepath.Join(t.TempDir(), "state"), Host: loopbackHost{},
		Primary: func() ([]netip.Addr, error) { return primary, fails },
		Take: func() ([]service.State, bool) {
			return []service.State{{Service: "a/web", Frontends: []service.Frontend{web}}}, true
		}})
	if p.owned, _, err = loadOwned(p.opts.StateFile); err != nil {
		t.Fatal(err)
	}

	p.relay = relay.New(p.opts.Relay)
	defer p.relay.Close()
	step := func(what string, addrs []netip.Addr, known error, want ...string) {
		t.Helper()
		primary, fails = addrs, known
		if err := p.sync(t.Context()); (err != nil) != (known != nil) || known != nil && !errors.Is(err, known) {
			t.Errorf("%s: %v, want %v", what, err, known)
		}

		var got []string
		for at := range p.relay.State().Listeners {
			got = append(got, at.Addr().String())
		}

		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: listens at %q, want %q", what, got, want)
		}
	}
	step("not known yet", nil, errors.New("no node"))
	step("known", []netip.Addr{addr("127.0.0.2"), addr("fd00::1")}, nil, "127.0.0.2")
	step("lost", nil, errors.New("no node"), "127.0.0.2")
	step("another", []netip.Addr{addr("127.0.0.1")}, nil, "127.0.0.1")
}
