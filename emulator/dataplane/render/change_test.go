package render

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/emulator/dataplane/dataplanetest"
	"porthole.dev/porthole/emulator/desired"
)

// Small changes end in the same state as rendering everything.
func TestChangeEqualsRender(t *testing.T) {
	c := dataplanetest.Churn{Rand: rand.New(rand.NewPCG(1, 2)),
		Desired: desired.State{Networks: []desired.Network{{ID: dataplanetest.NetID, Type: l2Bridge,
			Subnets: []desired.Subnet{{Prefix: netip.MustParsePrefix("10.244.1.0/24")},
				{Prefix: netip.MustParsePrefix("fd00:1::/64")}}}}}}
	live := All(c.Desired, testFacts)
	writes := 0
	for step := range 600 {
		change := c.Next()
		if !live.Takes(change) {
			t.Fatalf("step %d: the change cannot be made alone: %+v", step, change)
		}
		for _, tx := range live.Change(change) {
			writes += len(tx.Gone) + len(tx.Come)
		}
		if step%7 != 0 {
			continue
		}
		want := State(c.Desired, testFacts)
		if len(live.State.Rejected)+len(want.Rejected) > 0 {
			t.Fatalf("step %d: rejected %v, %v", step, live.State.Rejected, want.Rejected)
		}
		live.KeepChains(&want)
		if !reflect.DeepEqual(want.Rules, live.State.Rules) || !reflect.DeepEqual(want.Rules6, live.State.Rules6) {
			t.Fatalf("step %d, after %+v (-all +small):\n%s%s", step, change, cmp.Diff(want.Rules, live.State.Rules),
				cmp.Diff(want.Rules6, live.State.Rules6))
		}
	}

	if writes < 3000 {
		t.Errorf("only %d elements were written", writes)
	}
}

// What is more than a load balancer or a backend's address is not taken.
func TestChangeTakes(t *testing.T) {
	d := sample()
	d.LoadBalancers = d.LoadBalancers[:3]
	d.Endpoints = slices.DeleteFunc(d.Endpoints, func(e desired.Endpoint) bool { return e.ID == "lost" })
	live := All(d, testFacts)
	pod := d.Endpoints[1]
	for name, c := range map[string]desired.Change{
		"a pod that comes":    {Endpoints: []desired.Endpoint{{ID: "new", Network: "net", Namespace: "pod"}}},
		"a pod that goes":     {GoneEndpoints: []string{pod.ID}},
		"a pod that detaches": {Endpoints: []desired.Endpoint{{ID: pod.ID, Network: "net", Addrs: pod.Addrs}}},
	} {
		if live.Takes(c) {
			t.Errorf("%s was taken", name)
		}
	}
	if !live.Takes(desired.Change{GoneEndpoints: []string{"far", "unattached"}, GoneLoadBalancers: []string{"dns"}}) {
		t.Error("backends and a load balancer that go were not taken")
	}
	if All(sample(), testFacts).Takes(desired.Change{}) {
		t.Error("a change was taken while an object is rejected")
	}
}
