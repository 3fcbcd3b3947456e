package routes

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// TestTellServices: the Node says what programs its services, and no longer says so in another mode. What is right is
// not written again.
func TestTellServices(t *testing.T) {
	api := &fakeCluster{nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "win01"}}}}
	a := &agent{o: Options{Node: "win01"}, cluster: api}
	for i, step := range []struct {
		mode   keeper
		want   string
		writes int
	}{
		{hostGateway{}, "", 0}, {&ovnKeeper{}, nodeapi.OVNProgrammer, 1}, {&ovnKeeper{}, nodeapi.OVNProgrammer, 1},
		{hostGateway{}, "", 2}, {hostGateway{}, "", 2},
	} {
		if err := a.tellServices(t.Context(), step.mode); err != nil {
			t.Fatal(err)
		}
		if got := api.nodes[0].Annotations[nodeapi.ServiceProgrammer]; got != step.want ||
			len(api.annotations) != step.writes {
			t.Errorf("step %d: %q after %d writes, want %q after %d", i, got, len(api.annotations), step.want,
				step.writes)
		}
	}
}

// TestWaitingIsNotUnhealthy: a route that waits for another node makes this one not ready, but not unhealthy: a
// restart would change nothing.
func TestWaitingIsNotUnhealthy(t *testing.T) {
	s := Status{PodCIDR: "10.244.1.0/24"}
	s.add(keep.Status{Wanted: 2, Present: 1,
		Routes: []keep.RouteStatus{{State: string(table.Present)},
			{State: string(table.Waiting), Reason: "it has not announced its endpoint yet"}}})
	if s.unhealthy(false) != "" || !strings.Contains(s.unhealthy(true), "not announced") {
		t.Errorf("healthy: %q, ready: %q", s.unhealthy(false), s.unhealthy(true))
	}
	s.add(keep.Status{Wanted: 3, Present: 1, Routes: s.Routes})
	if s.unhealthy(false) == "" {
		t.Error("a route is missing, and the node is healthy")
	}
}
