package ovn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/testkit/wait"
)

// chassis lists the nodes that OVN's southbound database knows.
func (w *world) chassis() []string {
	w.t.Helper()
	client, err := ovsdb.Dial(w.t.Context(), "unix:"+w.central.SB())
	w.must(err)
	defer client.Close()
	results, err := client.Transact(w.t.Context(), "OVN_Southbound", ovsdb.Select("Chassis", nil, "name"))
	w.must(err)
	var names []string
	for _, row := range results[0].Rows {
		names = append(names, row.Text("name"))
	}
	slices.Sort(names)
	return names
}

// TestNodeGone deletes a node: its chassis goes, and the others have no tunnel to it any more.
func TestNodeGone(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", "10.99.0.11", "10.244.1.0/24")
	n2 := w.addNode("n2", "10.99.0.12", "10.244.2.0/24")
	w.sync()
	if got := strings.Join(w.chassis(), " "); got != "n1 n2" {
		t.Fatalf("chassis %q", got)
	}

	for _, name := range []string{"ovn-controller", "ovs-vswitchd", "ovsdb-server"} { // the node loses its power
		w.daemons["n2/"+name].kill()
	}
	delete(w.nodes, "n2")
	w.api.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n2.name}})
	began := time.Now()
	wait.NoError(t, 2*time.Second, "the chassis to go", func() error {
		if got := strings.Join(w.chassis(), " "); got != "n1" {
			return fmt.Errorf("chassis %q", got)
		}
		return nil
	})
	t.Logf("the chassis of a deleted node is gone after %v", time.Since(began).Round(time.Millisecond))
}

// TestOverlappingRanges: OVN would accept both. One node keeps its range, the other gets none and an event.
func TestOverlappingRanges(t *testing.T) {
	w := newWorld(t)
	for name, subnet := range map[string]string{"n1": "10.244.1.0/24", "n2": "10.244.1.0/25"} {
		w.api.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: subnet}})
	}
	wait.NoError(t, 5*time.Second, "events", func() error {
		got := w.api.warnings()
		const want = "Node n2 RangesOverlap: pod range 10.244.1.0/25 of node n2 overlaps 10.244.1.0/24 of node n1"
		if !strings.Contains(got, want) || strings.Contains(got, "Node n1") {
			return fmt.Errorf("events %q", got)
		}
		return nil
	})
}
