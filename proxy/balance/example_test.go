package balance_test

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// A Planner compares one frontend with what HNS has. Nothing is there yet, so the pod of another node gets a remote
// endpoint before the load balancer. The pod of this node must have one already: its CNI plugin makes it.
func ExamplePlanner_Frontend() {
	planner := balance.Planner{
		Index: balance.NewIndex(),
		Facts: &balance.Facts{Version: hns.Version{Major: 13, Minor: 3},
			Network: hns.Network{ID: "net-1", Name: "porthole", Type: hns.L2Bridge,
				Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.1.0/24")}}}},
	}
	frontend := &service.Frontend{
		Key:  service.Key{VIP: netip.MustParseAddr("10.96.0.20"), Protocol: hns.TCP, Port: 80},
		Kind: service.ClusterIP, Service: "shop/web",
		Backends: []service.Backend{{Addr: netip.MustParseAddr("10.244.2.7"), Port: 8080}},
	}

	plan := planner.Frontend(frontend)
	for _, op := range plan.Ops {
		fmt.Println(op)
	}
	// Output:
	// create endpoint 10.244.2.7
	// create lb 10.96.0.20 80/tcp -> 10.244.2.7:8080
}
