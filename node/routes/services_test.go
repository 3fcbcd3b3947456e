package routes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/nodeapi"
)

// TestTellServices: the Node says what programs its services, and no longer says so in another mode. What is right is not written again.
func TestTellServices(t *testing.T) {
	api := &fakeCluster{nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "win01"}}}}
	a := &agent{o: Options{Node: "win01"}, cluster: api}
	for i, step := range []struct {
		mode   keeper
		want   string
		writes int
	}{
		{hostGateway{}, "", 0}, {&ovnKeeper{}, nodeapi.OVNProgrammer, 1}, {&ovnKeeper{}, nodeapi.OVNProgrammer, 1}, {hostGateway{}, "", 2}, {hostGateway{}, "", 2},
	} {
		if err := a.tellServices(t.Context(), step.mode); err != nil {
			t.Fatal(err)
		}
		if got := api.nodes[0].Annotations[nodeapi.ServiceProgrammer]; got != step.want || len(api.annotations) != step.writes {
			t.Errorf("step %d: %q after %d writes, want %q after %d", i, got, len(api.annotations), step.want, step.writes)
		}
	}
}
