package podnet

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

// on returns an HNS on a fake, as a process that has just started.
func on(f *hnstest.Fake) *HNS {
	return &HNS{Reader: f, Writer: hnstest.Host{Fake: f}, Balancers: f, Adapters: hnstest.Host{Fake: f}}
}

func wantedNetwork(t *testing.T) Network {
	t.Helper()
	n, err := Bridged(Options{
		PodCIDR: netip.MustParsePrefix("10.244.1.0/24"), Cluster: netip.MustParsePrefix("10.244.0.0/16"),
		Services: netip.MustParsePrefix("10.96.0.0/16"), Node: netip.MustParseAddr("10.99.0.21"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// rightState is what HNS has once the network is made.
const rightState = `network porthole L2Bridge 10.244.1.0/24 via 10.244.1.1
network porthole endpoint "porthole_ep" [10.244.1.2] in HostDefault
`

// host returns a fake HNS; kind says which network of our name it has.
func host(t *testing.T, kind string) *hnstest.Fake {
	t.Helper()
	ctx, f := context.Background(), hnstest.New(hns.Version{Major: 13, Minor: 3})
	if kind == "no network" {
		return f
	}

	old := hns.Network{Name: NetworkName, Type: hns.L2Bridge, Subnets: []hns.Subnet{{
		Prefix: netip.MustParsePrefix("10.244.9.0/24"), Gateway: netip.MustParseAddr("10.244.9.1"),
	}}}
	if kind == "fits" {
		old = wantedNetwork(t).HNS
	}
	n, err := f.CreateNetwork(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "differs and is empty" {
		return f
	}

	addEndpoint(t, f, n, HostEndpoint, hnstest.HostNamespace)
	if kind == "differs and is used" {
		f.AddNamespace("guest")
		addEndpoint(t, f, n, "abc_porthole", "guest")
	}
	return f
}

func addEndpoint(t *testing.T, f *hnstest.Fake, n hns.Network, name string, in hns.NamespaceID) {
	t.Helper()
	addr := n.Subnets[0].HostAddr()
	if name != HostEndpoint {
		addr = addr.Next()
	}
	e, err := f.CreateEndpoint(context.Background(), hns.Endpoint{Name: name, Network: n.ID, Addrs: []netip.Addr{addr}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AddToNamespace(context.Background(), in, e.ID); err != nil {
		t.Fatal(err)
	}
}

// Row 1.37.
func TestEnsure(t *testing.T) {
	for _, c := range []struct {
		network                    string
		replace                    bool
		changed, replaced, refused bool
	}{
		{network: "no network", changed: true},
		{network: "fits"},
		{network: "fits", replace: true},
		{network: "differs and is empty", changed: true, replaced: true},
		{network: "differs, only the host's endpoint", changed: true, replaced: true},
		{network: "differs and is used", refused: true},
		{network: "differs and is used", replace: true, changed: true, replaced: true},
	} {
		f := host(t, c.network)
		before := f.DumpNetworks()
		made, err := on(f).Ensure(context.Background(), wantedNetwork(t), c.replace)

		var differs *DiffersError
		if errors.As(err, &differs) != c.refused || (err != nil) != c.refused {
			t.Errorf("%s: %v, want refused %v", c.network, err, c.refused)
		}
		if made.Changed != c.changed || (len(made.Replaced) > 0) != c.replaced {
			t.Errorf("%s: %+v, want changed %v and replaced %v", c.network, made, c.changed, c.replaced)
		}
		want := rightState
		if c.refused {
			want = before
		}
		if diff := cmp.Diff(want, f.DumpNetworks()); diff != "" {
			t.Errorf("%s: HNS afterwards (-want +got):\n%s", c.network, diff)
		}
	}
}

// TestEnsureDualStack makes a network with ranges of both families, none of them a /24, and only where HNS has such
// networks.
// Row 1.30.
func TestEnsureDualStack(t *testing.T) {
	wanted, err := Bridged(Options{
		PodCIDR: netip.MustParsePrefix("10.244.1.64/26"), Cluster: netip.MustParsePrefix("10.244.0.0/16"),
		Services: netip.MustParsePrefix("10.96.0.0/16"), Node: netip.MustParseAddr("10.99.0.21"),
		Second: Second{PodCIDR: netip.MustParsePrefix("fd00:10:244:1::/64"),
			Cluster:  netip.MustParsePrefix("fd00:10:244::/48"),
			Services: netip.MustParsePrefix("fd00:10:96::/112"), Node: netip.MustParseAddr("fd00:10:99::15")},
	})
	if err != nil {
		t.Fatal(err)
	}

	f := hnstest.New(hns.Version{Major: 9, Minor: 3})
	f.ResetCalls()
	if _, err := on(f).Ensure(context.Background(), wanted, true); err == nil ||
		!strings.Contains(err.Error(), "begin with build 19041") || strings.Contains(f.Calls(), "create") {
		t.Errorf("HNS 9.3: %v\n%s", err, f.Calls())
	}

	f = hnstest.New(hns.Version{Major: 11, Minor: 10})
	for _, pass := range []bool{true, false} {
		made, err := on(f).Ensure(context.Background(), wanted, false)
		if err != nil || made.Changed != pass || len(made.Differs) > 0 {
			t.Errorf("HNS 11.10: %+v, %v; want changed %v", made, err, pass)
		}
	}
	const want = "network porthole L2Bridge 10.244.1.64/26 via 10.244.1.65 fd00:10:244:1::/64 via fd00:10:244:1::1\n" +
		"network porthole endpoint \"porthole_ep\" [10.244.1.66 fd00:10:244:1::2] in HostDefault\n"
	if diff := cmp.Diff(want, f.DumpNetworks()); diff != "" {
		t.Errorf("HNS afterwards (-want +got):\n%s", diff)
	}
}

// TestEnsureAnotherRange: the range changes while the process that made the network runs. It is refused under pods,
// and the network is replaced without them.
func TestEnsureAnotherRange(t *testing.T) {
	ctx, f := context.Background(), hnstest.New(hns.Version{Major: 13, Minor: 3})
	h, wanted := on(f), wantedNetwork(t)
	if _, err := h.Ensure(ctx, wanted, false); err != nil {
		t.Fatal(err)
	}
	made, err := f.NetworkByName(ctx, NetworkName)
	if err != nil {
		t.Fatal(err)
	}
	f.AddNamespace("guest")
	addEndpoint(t, f, made, "abc_porthole", "guest")

	other := wantedNetwork(t)
	other.HNS.Subnets = []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.9.0/24"),
		Gateway: netip.MustParseAddr("10.244.9.1")}}
	other.Host.Addrs = []netip.Addr{netip.MustParseAddr("10.244.9.2")}
	before := f.DumpNetworks()
	var differs *DiffersError
	if _, err := h.Ensure(ctx, other, false); !errors.As(err, &differs) || f.DumpNetworks() != before {
		t.Errorf("under a pod: %v\n%s", err, f.DumpNetworks())
	}

	endpoints, err := f.Endpoints(ctx, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range endpoints {
		if e.Name == "abc_porthole" {
			if err := (hnstest.Host{Fake: f}).DeleteEndpoint(ctx, e.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if made, err := h.Ensure(ctx, other, false); err != nil || len(made.Replaced) != 1 ||
		!strings.Contains(f.DumpNetworks(), "L2Bridge 10.244.9.0/24") {
		t.Errorf("without pods: %+v, %v\n%s", made, err, f.DumpNetworks())
	}
}

// TestEnsureExtension: a network on whose switch the wanted extension is not enabled is made anew, unless pods use it:
// then it is named.
// Rows 1.36, 1.51.
func TestEnsureExtension(t *testing.T) {
	ctx, f := context.Background(), hnstest.New(hns.Version{Major: 13, Minor: 3})
	h, wanted := on(f), wantedNetwork(t)
	if _, err := h.Ensure(ctx, wanted, false); err != nil {
		t.Fatal(err)
	}
	plain, err := f.NetworkByName(ctx, NetworkName)
	if err != nil {
		t.Fatal(err)
	}
	f.AddNamespace("guest")
	addEndpoint(t, f, plain, "abc_porthole", "guest")

	wanted.HNS.Extension = "583CC151-73EC-4A6A-8B47-578297AD7623"
	_, err = h.Ensure(ctx, wanted, false)
	for _, want := range []string{"switch extension: wanted 583CC151-73EC-4A6A-8B47-578297AD7623, found none",
		"abc_porthole", "--replace-network"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
	if made, err := h.Ensure(ctx, wanted, true); err != nil || len(made.Replaced) != 1 {
		t.Errorf("asked to replace it: %+v, %v", made, err)
	}
	if now, err := f.NetworkByName(ctx, NetworkName); err != nil || now.Extension != wanted.HNS.Extension {
		t.Errorf("%+v, %v", now, err)
	}
	if made, err := h.Ensure(ctx, wanted, false); err != nil || made.Changed {
		t.Errorf("with the extension: %+v, %v", made, err)
	}
}

func TestRefusalNamesDifferencesAndCure(t *testing.T) {
	f := host(t, "differs and is used")
	_, err := on(f).Ensure(context.Background(), wantedNetwork(t), false)
	for _, want := range []string{"porthole", "subnet: wanted 10.244.1.0/24, found 10.244.9.0/24", "abc_porthole",
		"--replace-network"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

// What HNS does not answer is not known, and nothing is touched.
func TestEnsureTouchesNothingUnknown(t *testing.T) {
	for _, kind := range []string{"find network", "list endpoints", "list namespaces"} {
		f := host(t, "differs, only the host's endpoint")
		before := f.DumpNetworks()
		f.ResetCalls()
		f.SetFault(only(kind, hnstest.Fail))
		if _, err := on(f).Ensure(context.Background(), wantedNetwork(t), true); hns.ClassOf(err) != hns.Unknown {
			t.Errorf("%s failed: %v", kind, err)
		}
		if diff := cmp.Diff(before, f.DumpNetworks()); diff != "" || strings.Contains(f.Calls(), "create") ||
			strings.Contains(f.Calls(), "delete") {
			t.Errorf("%s failed, and HNS was changed:\n%s%s", kind, diff, f.Calls())
		}
	}
}

// Each call fails in turn, before or after its change is made; the next passes make everything right.
func TestEnsureAfterFailures(t *testing.T) {
	ctx, wanted := context.Background(), wantedNetwork(t)
	for _, network := range []string{"no network", "differs, only the host's endpoint", "differs and is used"} {
		for _, kind := range []string{"find network", "list endpoints", "list namespaces", "delete endpoint",
			"delete network",
			"create network", "create endpoint", "add endpoint"} {
			for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail} {
				f := host(t, network)
				f.ResetCalls()
				f.SetFault(only(kind, how))
				_, err := on(f).Ensure(ctx, wanted, true)
				if how == hnstest.Fail && (err != nil) != (f.Count(kind) > 0) {
					t.Errorf("%s, %s: error %v", network, kind, err)
				}

				f.SetFault(nil)
				if _, err := on(f).Ensure(ctx, wanted, true); err != nil || f.DumpNetworks() != rightState {
					t.Errorf("%s, after %s failed: %v\n%s", network, kind, err, f.DumpNetworks())
				}
			}
		}
	}
}

func TestEnsureWithOneCallInTenFailing(t *testing.T) {
	ctx, wanted := context.Background(), wantedNetwork(t)
	for seed := range uint64(50) {
		f := host(t, "differs and is used")
		f.SetFault(hnstest.OneIn(10, seed, hnstest.DoThenFail))
		passes := 0
		for f.DumpNetworks() != rightState && passes < 20 {
			_, _ = on(f).Ensure(ctx, wanted, true) // the next pass makes up for a failure
			passes++
		}
		if f.DumpNetworks() != rightState {
			t.Errorf("seed %d: after %d passes\n%s", seed, passes, f.DumpNetworks())
		}
	}
}

func only(kind string, how hnstest.Outcome) func(string) hnstest.Outcome {
	return func(k string) hnstest.Outcome {
		if k == kind {
			return how
		}
		return hnstest.Work
	}
}

// onOverlay is on for overlay networks.
func onOverlay(f *hnstest.Fake) *HNS {
	h := on(f)
	h.Overlays = hnstest.Overlay{Fake: f}
	return h
}

func wantedOverlay(t *testing.T, vni uint32) Network {
	t.Helper()
	n, err := Overlay(Options{
		PodCIDR: netip.MustParsePrefix("10.244.1.0/24"), Cluster: netip.MustParsePrefix("10.244.0.0/16"),
		Services: netip.MustParsePrefix("10.96.0.0/16"), Node: netip.MustParseAddr("10.99.0.21"),
	}, vni)
	if err != nil {
		t.Fatal(err)
	}
	n.HNS.Management = netip.MustParseAddr("10.99.0.21")
	return n
}

const rightOverlay = `network porthole Overlay 10.244.1.0/24 via 10.244.1.1 vsid 4096 with host route
network porthole endpoint "porthole_ep" [10.244.1.2]
network porthole-base Overlay 192.168.255.0/30 via 192.168.255.1 vsid 9999
`

// TestOverlay makes the network of an overlay with each call failing in turn, as if the process had been killed there,
// and goes on in another process. Then a change of the VNI replaces it only while nothing but our own endpoint is in
// it.
func TestOverlay(t *testing.T) {
	for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail} {
		for at := 1; ; at++ {
			f := hnstest.New(hns.Version{Major: 13, Minor: 3})
			f.Provider = netip.MustParseAddr("10.99.0.21")
			calls := 0
			f.SetFault(func(string) hnstest.Outcome {
				if calls++; calls == at {
					return how
				}
				return hnstest.Work
			})
			_, first := onOverlay(f).Ensure(t.Context(), wantedOverlay(t, 4096), false)
			if calls < at {
				break
			}
			if first == nil && how == hnstest.Fail {
				t.Errorf("call %d fails, and Ensure does not", at)
			}
			if _, err := onOverlay(f).Ensure(t.Context(), wantedOverlay(t, 4096), false); err != nil {
				t.Errorf("after call %d: %v", at, err)
			}
			if diff := cmp.Diff(rightOverlay, f.DumpNetworks()); diff != "" {
				t.Errorf("after call %d (-want +got):\n%s", at, diff)
			}

			f.ResetCalls()
			made, err := onOverlay(f).Ensure(t.Context(), wantedOverlay(t, 4096), false)
			if calls := f.Calls(); err != nil || made.Changed || strings.Contains(calls, "create") ||
				strings.Contains(calls, "add") || strings.Contains(calls, "delete") {
				t.Errorf("when everything is right: %+v %v\n%s", made, err, calls)
			}
		}
	}
}

func TestOverlayDiffers(t *testing.T) {
	f := hnstest.New(hns.Version{Major: 13, Minor: 3})
	f.Provider = netip.MustParseAddr("10.99.0.21")
	for _, vni := range []uint32{4096, 4097} {
		if _, err := onOverlay(f).Ensure(t.Context(), wantedOverlay(t, vni), false); err != nil {
			t.Fatalf("VNI %d: %v", vni, err)
		}
	}
	if want := strings.Replace(rightOverlay, "vsid 4096", "vsid 4097", 1); f.DumpNetworks() != want {
		t.Errorf("after another VNI: %s", f.DumpNetworks())
	}

	n, err := f.NetworkByName(t.Context(), NetworkName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.CreateEndpoint(t.Context(),
		hns.Endpoint{Name: "abc_porthole", Network: n.ID,
			Addrs: []netip.Addr{netip.MustParseAddr("10.244.1.9")}}); err != nil {
		t.Fatal(err)
	}
	_, err = onOverlay(f).Ensure(t.Context(), wantedOverlay(t, 4096), false)
	var differs *DiffersError
	if !errors.As(err, &differs) ||
		!strings.Contains(err.Error(), "virtual subnet of 10.244.1.0/24: wanted 4096, found 4097") {
		t.Errorf("with a pod: %v", err)
	}
}

// An overlay network without a provider address, or with another adapter's, is not ready.
func TestOverlayProvider(t *testing.T) {
	f := hnstest.New(hns.Version{Major: 13, Minor: 3})
	f.LateProvider = true
	h := onOverlay(f)
	overlay := hnstest.Overlay{Fake: f}
	for _, c := range []struct{ provider, want string }{
		{"", "has not bound overlay network porthole to a network adapter yet"},
		{"10.99.1.5", "to the adapter with address 10.99.1.5, and this node's address is 10.99.0.21"},
		{"10.99.0.21", ""},
	} {
		if c.provider != "" {
			overlay.Provide(NetworkName, netip.MustParseAddr(c.provider), "00-15-5D-00-00-07")
		}
		_, err := h.Ensure(t.Context(), wantedOverlay(t, 4096), false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("provider %q: %v, want %q", c.provider, err, c.want)
		}
	}
}
