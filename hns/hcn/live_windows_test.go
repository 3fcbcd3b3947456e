package hcn

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest/suite"
)

// TestLive runs the suite of what our products rely on against the HNS of this host, emulated or real, on networks of
// its own. PORTHOLE_LIVE_HNS=1 asks for it, PORTHOLE_LIVE_ADAPTER names the adapter of its networks.
func TestLive(t *testing.T) {
	if os.Getenv("PORTHOLE_LIVE_HNS") == "" {
		t.Skip("PORTHOLE_LIVE_HNS is not set: this test changes the host's network")
	}
	for name, options := range map[string]Options{"read back": {}, "trusted": {Trust: true}} {
		t.Run(name, func(t *testing.T) {
			c := New(options)
			version, err := c.Version(t.Context())
			if err != nil || !version.AtLeast(9, 2) {
				t.Fatalf("version %v: %v", version, err)
			}
			suite.Run(t, suite.Host{Networks: c, Endpoints: c, Balancers: c, Namespaces: c, Version: version,
				Adapter: os.Getenv("PORTHOLE_LIVE_ADAPTER")})
		})
	}
	t.Run("ids are kept", liveIDs)
}

// liveIDs: a client trusts an HNS once it has seen that it keeps the ids that it is given.
func liveIDs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := New(Options{Trust: true})
	network, err := c.CreateNetwork(ctx,
		hns.Network{Name: "porthole-live", Type: hns.L2Bridge, Adapter: os.Getenv("PORTHOLE_LIVE_ADAPTER"),
			Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.77.0.0/24"),
				Gateway: netip.MustParseAddr("10.77.0.1")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.DeleteNetwork(context.Background(), network.ID); err != nil {
			t.Error(err)
		}
	}()

	if c.trusts("706f7274-6570-8001-8001-000000000001") {
		t.Error("ids are trusted before one was seen")
	}
	for i, id := range []hns.EndpointID{"706f7274-6570-8001-8001-000000000001",
		"706f7274-6570-8001-8001-000000000002"} {
		addr := netip.AddrFrom4([4]byte{10, 78, 0, byte(i + 1)})
		made, err := c.CreateEndpoint(ctx,
			hns.Endpoint{ID: id, Name: "porthole-live", Network: network.ID, Remote: true,
				Addrs: []netip.Addr{addr}, MAC: "02-11-0a-4e-00-01"})
		if err != nil || made.ID != id || !made.Has(addr) {
			t.Errorf("made %+v, %v", made, err)
		}
		if !c.keepsIDs.Load() {
			t.Error("this HNS does not keep ids")
		}
	}
}
