package hostgw

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// The range for benchmarks (RFC 2544), which no host uses.
var (
	testRange = netip.MustParsePrefix("198.18.0.0/15")
	testPods  = netip.MustParsePrefix("198.18.7.0/24")
)

// uplinkAddr returns the address of the first adapter that has a neighbour to route through, and the neighbour's.
func uplinkAddr(t *testing.T) (self, neighbour netip.Addr) {
	t.Helper()
	adapters, err := winipcfg.GetAdaptersAddresses(windows.AF_INET, winipcfg.GAAFlagDefault)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range adapters {
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			addr, ok := netip.AddrFromSlice(u.Address.IP())
			if !ok || addr.Unmap().IsLoopback() || u.OnLinkPrefixLength > 30 {
				continue
			}
			self = addr.Unmap()
			for n := netip.PrefixFrom(self, int(u.OnLinkPrefixLength)).Masked().Addr().Next(); ; n = n.Next() {
				if n != self {
					return self, n
				}
			}
		}
	}
	t.Fatal("no adapter has an IPv4 address")
	return
}

// TestWindowsTable changes the real table of this host: a route comes, is there when it is listed, is put back by the
// event alone when it vanishes, and goes.
func TestWindowsTable(t *testing.T) {
	if !windows.GetCurrentProcessToken().IsElevated() {
		t.Skip("changing routes needs an administrator")
	}
	self, neighbour := uplinkAddr(t)
	host, err := fib.New(self, testRange)
	if err != nil {
		t.Fatal(err)
	}
	remove := func() {
		if err := host.Delete(testPods, neighbour); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	t.Cleanup(remove)

	statuses := make(chan keep.Status, 100)
	nodes := []table.Node{{Name: "self", Addr: self},
		{Name: "other", Addr: neighbour, PodCIDRs: []netip.Prefix{testPods}}}
	k := keep.New(New("self", table.Cluster{Pods: []netip.Prefix{testRange}}, host), keep.Options{
		Period:   time.Hour,
		OnStatus: func(s keep.Status) { statuses <- s },
		Nodes:    func() ([]table.Node, bool) { return nodes, true },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	wait := func(what string, ok func(keep.Status) bool) {
		t.Helper()
		begin, limit := time.Now(), time.After(10*time.Second)
		for {
			select {
			case s := <-statuses:
				if s.Error != "" {
					t.Fatal(s.Error)
				}
				if ok(s) {
					t.Logf("%s after %v", what, time.Since(begin))
					return
				}
			case <-limit:
				t.Fatalf("%s: not within 10 s; status %+v", what, k.Status())
			}
		}
	}
	wait("route there", func(s keep.Status) bool { return s.Complete() && s.Wanted == 1 })
	// The event of our own change makes another pass: it must find nothing to repair.
	wait("seen", func(s keep.Status) bool { return s.Complete() && s.Repairs == 0 })
	routes, _, err := host.List()
	if err != nil || len(routes) != 1 || routes[0] != (table.Route{Dst: testPods, NextHop: neighbour, Ours: true}) {
		t.Fatalf("listed %+v, %v", routes, err)
	}

	if err := host.Add(testPods, neighbour); err != nil {
		t.Errorf("adding again: %v", err)
	}
	remove()
	wait("route put back", func(s keep.Status) bool { return s.Complete() && s.Repairs == 1 })

	cancel()
	<-done
	remove()
	remove() // deleting what is gone is success
	if routes, _, err := host.List(); err != nil || len(routes) != 0 {
		t.Errorf("left %+v, %v", routes, err)
	}
}
