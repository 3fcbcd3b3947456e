package hnstest_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

// A test gives its code a host in memory, and has one call fail as HNS fails: what was asked is done, and the answer is
// an error.
func ExampleFake() {
	ctx := context.Background()
	host := hnstest.New(hns.Version{Major: 13, Minor: 3}, hns.Network{ID: "net-1", Name: "porthole", Type: hns.L2Bridge,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.1.0/24"),
			Gateway: netip.MustParseAddr("10.244.1.1")}}})
	host.SetFault(func(call string) hnstest.Outcome {
		if strings.HasPrefix(call, "create endpoint") {
			return hnstest.DoThenFail
		}
		return hnstest.Work
	})

	_, err := host.CreateEndpoint(ctx, hns.Endpoint{Name: "web-0", Network: "net-1",
		Addrs: []netip.Addr{netip.MustParseAddr("10.244.1.5")}})
	fmt.Println("class of the error:", hns.ClassOf(err))

	e, err := host.EndpointByName(ctx, "web-0")
	fmt.Println("endpoint of", e.Addrs, err)
	// Output:
	// class of the error: unknown
	// endpoint of [10.244.1.5] <nil>
}
