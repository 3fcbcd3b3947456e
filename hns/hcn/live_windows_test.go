package hcn

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
)

// TestLive runs against the HNS of this host, emulated or real, on a network of its own: PORTHOLE_LIVE_HNS=1 asks for it.
func TestLive(t *testing.T) {
	if os.Getenv("PORTHOLE_LIVE_HNS") == "" {
		t.Skip("PORTHOLE_LIVE_HNS is not set: this test changes the host's network")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := New(Options{Trust: true})
	version, err := c.Version(ctx)
	if err != nil || !version.AtLeast(9, 2) {
		t.Fatalf("version %v: %v", version, err)
	}

	network, err := c.CreateNetwork(ctx, hns.Network{Name: "porthole-live", Type: hns.L2Bridge, Adapter: os.Getenv("PORTHOLE_LIVE_ADAPTER"),
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.77.0.0/24"), Gateway: netip.MustParseAddr("10.77.0.1")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.DeleteNetwork(context.Background(), network.ID); err != nil {
			t.Error(err)
		}
	}()

	if ids, err := c.NetworkIDs(ctx, "porthole-live"); err != nil || !slices.Equal(ids, []hns.NetworkID{network.ID}) {
		t.Errorf("network ids %v: %v, wanted %s", ids, err, network.ID)
	}
	if found, err := c.NetworkByName(ctx, "porthole-live"); err != nil || found.ID != network.ID || found.Type != hns.L2Bridge {
		t.Errorf("network %+v: %v", found, err)
	}
	if _, err := c.NetworkByName(ctx, "no such network"); !hns.IsAbsent(err) {
		t.Errorf("a network that is not there: %v", err)
	}

	endpoints := liveEndpoints(ctx, t, c, network.ID)
	liveBalancer(ctx, t, c, version, endpoints)
	for _, id := range endpoints {
		if err := c.DeleteEndpoint(ctx, id); err != nil {
			t.Error(err)
		}
		if err := c.DeleteEndpoint(ctx, id); err != nil {
			t.Errorf("deleting twice: %v", err)
		}
	}
}

// liveEndpoints makes two: the first is read back, the second trusted.
func liveEndpoints(ctx context.Context, t *testing.T, c *Client, network hns.NetworkID) []hns.EndpointID {
	ids := []hns.EndpointID{"706f7274-6570-8001-8001-000000000001", "706f7274-6570-8001-8001-000000000002"}
	for i, id := range ids {
		addr := netip.AddrFrom4([4]byte{10, 78, 0, byte(i + 1)})
		made, err := c.CreateEndpoint(ctx, hns.Endpoint{ID: id, Name: "porthole-live", Network: network, Remote: true,
			Addrs: []netip.Addr{addr}, MAC: "02-11-0a-4e-00-01"})
		if err != nil {
			t.Fatal(err)
		}
		if made.ID != id || !made.Has(addr) {
			t.Errorf("made %+v", made)
		}
		if !c.keepsIDs.Load() {
			t.Error("this HNS does not keep ids")
		}
		read, err := c.Endpoint(ctx, id)
		if err != nil || !read.Has(addr) || !read.Remote || read.Name != "porthole-live" {
			t.Errorf("read %+v: %v", read, err)
		}
	}

	_, err := c.CreateEndpoint(ctx, hns.Endpoint{ID: ids[0], Network: network, Remote: true, Addrs: []netip.Addr{netip.MustParseAddr("10.78.0.9")}})
	if hns.ClassOf(err) != hns.Exists {
		t.Errorf("the same id twice: %v", err)
	}

	listed, err := c.EndpointIDs(ctx, network)
	if err != nil || !slices.Contains(listed, ids[0]) || !slices.Contains(listed, ids[1]) {
		t.Errorf("listed %v: %v", listed, err)
	}
	if _, err := c.Endpoint(ctx, "706f7274-6570-8001-8001-0000000000ff"); !hns.IsAbsent(err) {
		t.Errorf("an endpoint that is not there: %v", err)
	}
	return ids
}

func liveBalancer(ctx context.Context, t *testing.T, c *Client, version hns.Version, endpoints []hns.EndpointID) {
	lb := hns.LoadBalancer{ID: "706f7274-6c62-8001-8001-000000000001", Endpoints: endpoints[:1], DSR: version.HasDSR(),
		VIPs: []netip.Addr{netip.MustParseAddr("10.79.0.10")}, Ports: []hns.Port{{Protocol: hns.TCP, External: 80, Internal: 8080}}}
	if _, err := c.CreateLoadBalancer(ctx, lb); err != nil {
		t.Fatal(err)
	}

	other := lb
	other.ID = "706f7274-6c62-8001-8001-000000000002"
	if _, err := c.CreateLoadBalancer(ctx, other); hns.ClassOf(err) != hns.Exists {
		t.Errorf("the same frontend twice: %v", err)
	}

	read, err := c.LoadBalancer(ctx, lb.ID)
	if err != nil || read.DSR != lb.DSR || !slices.Equal(read.VIPs, lb.VIPs) || !slices.Equal(read.Ports, lb.Ports) || !slices.Equal(read.Endpoints, lb.Endpoints) {
		t.Errorf("read %+v: %v", read, err)
	}
	if outlines, err := c.LoadBalancerOutlines(ctx); err != nil || outlines[lb.ID] != lb.Outline() {
		t.Errorf("outline %x of %x: %v", outlines[lb.ID], lb.Outline(), err)
	}

	lb.Endpoints = endpoints
	now, err := c.ModifyLoadBalancer(ctx, lb)
	switch {
	case version.CanModifyLoadBalancer():
		if err != nil || !slices.Equal(now.Endpoints, endpoints) {
			t.Errorf("modified: %+v: %v", now, err)
		}
	case err == nil && slices.Equal(now.Endpoints, endpoints):
		t.Errorf("HNS %s modified a load balancer", version)
	}

	if ids, err := c.LoadBalancerIDs(ctx); err != nil || !slices.Contains(ids, lb.ID) {
		t.Errorf("listed %v: %v", ids, err)
	}
	for range 2 {
		if err := c.DeleteLoadBalancer(ctx, lb.ID); err != nil {
			t.Error(err)
		}
	}

	if _, err := c.LoadBalancer(ctx, lb.ID); !hns.IsAbsent(err) {
		t.Errorf("deleted, but: %v", err)
	}
}
