package netspace

import (
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"porthole.dev/porthole/internal/platform"
)

// Space is a network namespace of a test. Its methods fail the test instead of returning errors.
type Space struct {
	// Name is unique on this machine; Path is the file that `nsenter --net` and platform.InNetns take.
	Name, Path string

	t testing.TB
}

// made counts the namespaces of this process, for names of their own.
var made atomic.Int64

// New makes a network namespace whose loopback is up, and removes it when the test ends. purpose becomes part of its
// name.
func New(t testing.TB, purpose string) *Space {
	t.Helper()
	return Named(t, fmt.Sprintf("phtest-%d-%d-%s", os.Getpid(), made.Add(1), purpose))
}

// Named is New for a test that chooses the whole name, which must not be in use.
func Named(t testing.TB, name string) *Space {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	if platform.NetnsExists(name) {
		t.Fatalf("network namespace %s exists already", name)
	}

	s := &Space{Name: name, Path: platform.NetnsPath(name), t: t}
	s.must(platform.CreateNetns(name))
	t.Cleanup(func() {
		if err := platform.DeleteNetns(name); err != nil {
			t.Error(err)
		}
	})
	s.Do(func() error { return platform.LinkUp("lo") })
	return s
}

func (s *Space) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Do runs f on a thread inside the namespace; sockets that f opens stay in there. f must not end the test (FailNow):
// it does not run on the test's goroutine.
func (s *Space) Do(f func() error) {
	s.t.Helper()
	s.must(platform.InNetns(s.Path, f))
}

// Connect links the interface called name to one called peerName in another namespace. Both are up.
func (s *Space) Connect(name string, peer *Space, peerName string) {
	s.t.Helper()
	s.Do(func() error {
		if err := platform.CreateVeth(name, peerName, peer.Path); err != nil {
			return err
		}
		return platform.LinkUp(name)
	})
	peer.Do(func() error { return platform.LinkUp(peerName) })
}

// Bridge makes a bridge, up, with these interfaces as its ports. It does not pass packets to iptables.
func (s *Space) Bridge(name string, ports ...string) {
	s.t.Helper()
	s.Do(func() error {
		if err := platform.CreateBridge(name); err != nil {
			return err
		}
		for _, port := range ports {
			if err := platform.JoinBridge(port, name); err != nil {
				return err
			}
		}
		return platform.LinkUp(name)
	})
	s.Sysctls(map[string]string{"net/bridge/bridge-nf-call-iptables": "0"})
}

// Address gives an interface addresses such as "10.0.0.1/24", and sets it up.
func (s *Space) Address(name string, addresses ...string) {
	s.t.Helper()
	for _, text := range addresses {
		prefix, err := netip.ParsePrefix(text)
		s.must(err)
		s.Do(func() error { return platform.SetAddress(name, prefix) })
	}
	s.Do(func() error { return platform.LinkUp(name) })
}

// Route sends packets for a prefix such as "0.0.0.0/0" to a gateway.
func (s *Space) Route(to, via string) {
	s.t.Helper()
	prefix, err := netip.ParsePrefix(to)
	s.must(err)
	gateway, err := netip.ParseAddr(via)
	s.must(err)
	s.Do(func() error { return platform.SetRoute(prefix, gateway) })
}

// LinkRoute sends packets for a prefix out of an interface, without a gateway.
func (s *Space) LinkRoute(to, name string) {
	s.t.Helper()
	prefix, err := netip.ParsePrefix(to)
	s.must(err)
	s.Do(func() error { return platform.SetLinkRoute(prefix, name) })
}

// Forward makes the namespace a router of IPv4.
func (s *Space) Forward() {
	s.t.Helper()
	s.Sysctls(map[string]string{"net/ipv4/ip_forward": "1"})
}

// Sysctls writes kernel settings of the namespace, by their path below /proc/sys.
func (s *Space) Sysctls(values map[string]string) {
	s.t.Helper()
	s.Do(func() error { return platform.SetSysctls(values) })
}
