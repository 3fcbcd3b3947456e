package balance

import (
	"net/netip"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// TestBackendLimit: a load balancer has as many backends as HNS can serve, and the rest is reported.
// Row 1.82.
func TestBackendLimit(t *testing.T) {
	f := service.Frontend{Kind: service.ClusterIP, Service: "default/web",
		Key: service.Key{VIP: netip.MustParseAddr("10.96.0.10"), Protocol: hns.TCP, Port: 80}}
	for i := range MaxBackends + 6 {
		f.Backends = append(f.Backends,
			service.Backend{Addr: netip.AddrFrom4([4]byte{10, 245, byte(i / 250), byte(i%250 + 1)}), Port: 80})
	}

	facts := Facts{Network: hns.Network{ID: "net-1", Type: hns.L2Bridge}, Version: hns.Version{Major: 13, Minor: 3}}
	plan := Planner{Index: NewIndex(), Facts: &facts}.Frontend(&f)
	if len(plan.Limits) != 1 || plan.Limits[0].Reason != ReasonBackendLimit {
		t.Errorf("problems: %+v", plan.Limits)
	}
	if n := len(plan.Ops[len(plan.Ops)-1].Backends); n != MaxBackends {
		t.Errorf("%d backends", n)
	}
}

// TestDuplicateEndpoints: Windows Server 2019 lets several remote endpoints have one address. Ours is found first, and
// when it goes, the other one is.
func TestDuplicateEndpoints(t *testing.T) {
	facts := Facts{Network: hns.Network{ID: "net-1", Type: hns.L2Bridge}}
	addr := netip.MustParseAddr("10.244.3.5")
	ours := remoteDocument(addr, &facts)
	foreign := ours
	foreign.ID, foreign.Name = hns.EndpointID(foreignID("x")), "Ethernet"

	x := IndexOf(Listed{Endpoints: []hns.Endpoint{foreign, ours}})
	id, _ := ParseGUID(ours.ID)
	if e := x.Remote(addr); e == nil || e.ID != id {
		t.Fatalf("found %+v, want ours", e)
	}
	x.DropEndpoint(id)
	if e := x.Remote(addr); e == nil || e.ID == id {
		t.Fatalf("found %+v, want the other one", e)
	}
}
