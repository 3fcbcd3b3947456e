package serve

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/netspace"
)

// Calls with a real data plane: what small changes leave in the kernel is what the whole state says, and no call costs
// more because there are many load balancers.
func TestSmallChanges(t *testing.T) {
	plane, err := dataplane.New(dataplane.Options{Netns: netspace.New(t, "small").Path})
	must(t, err)
	t.Cleanup(plane.Close)
	s := startServerOn(t, 26100, plane)
	c := s.connect("kube-proxy.exe", 1)
	network := c.network()
	var backends []string
	for i := range 50 {
		backends = append(backends, c.remote(network, fmt.Sprintf("10.245.3.%d", 1+i)))
	}
	undrifted := func() {
		t.Helper()
		drift, err := s.s.Verify(t.Context())
		must(t, err)
		if len(drift) > 0 {
			t.Fatalf("drift: %v", drift)
		}
	}

	const n = 600
	var took []time.Duration
	begin := time.Now()
	for i := range n {
		start := time.Now()
		c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "",
			balancer(fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250), 80, backends[i%40], backends[i%40+3],
				backends[i%40+5]))
		took = append(took, time.Since(start))
	}

	slices.Sort(took)
	t.Logf("%d load balancers one after another: %v, median %v", n, time.Since(begin), took[n/2])
	undrifted()
	ids := c.ids(hnsd.LoadBalancer)
	for i, id := range ids[:60] {
		h := c.good(wire.On(hnsd.LoadBalancer, wire.Open), 0, id).handle
		c.good(wire.On(hnsd.LoadBalancer, wire.Modify), h, "",
			balancer(fmt.Sprintf("10.96.0.%d", 1+i), 80, backends[i%10], backends[20+i%10]))
	}

	for _, id := range ids[100:160] {
		c.good(wire.On(hnsd.LoadBalancer, wire.Delete), 0, id)
	}
	for _, id := range backends[45:] {
		c.good(wire.On(hnsd.Endpoint, wire.Delete), 0, id)
	}
	undrifted()
	// A loss and what comes after it.
	_, err = s.s.losses.lose(t.Context(), LoseRequest{Kind: "LoadBalancer", Count: 100, PlaneOnly: true})
	must(t, err)
	c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.97.0.1", 80, backends[0]))
	if drift, err := s.s.Verify(t.Context()); err != nil || len(drift) == 0 {
		t.Errorf("a loss of the data plane is not seen: %v", err)
	}
	_, err = s.s.losses.lose(t.Context(), LoseRequest{Kind: "LoadBalancer", Percent: 50})
	must(t, err)
	s.control("POST", "/repair", "", nil)
	undrifted()
	c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.97.0.2", 80, backends[1]))
	undrifted()
}
