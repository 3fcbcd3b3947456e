package ovn

import (
	"maps"
	"testing"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/ovsdb"
)

// TestSandboxes: GC deletes what this returns, so that ports of others are not among it, whatever keys they have.
func TestSandboxes(t *testing.T) {
	ours := ovnet.PodLink("c1", "eth0")
	if len(ours) != 15 {
		t.Errorf("%s has %d characters, want the 15 that Linux takes", ours, len(ours))
	}
	row := func(name string, ids ...any) ovsdb.Row {
		return ovsdb.Row{"name": name, "external_ids": []any{"map", ids}}
	}
	got := sandboxesOf([]ovsdb.Row{
		row(ours, []any{"sandbox", "c1"}, []any{"iface-id", "default_a"}),
		row("3f2e1d0c9b8a7f6", []any{"sandbox", "c2"}), // of OVN-Kubernetes
		row("ovn-worker-0", []any{"sandbox", "c3"}),    // a tunnel's name
		row("k8s-worker", []any{"iface-id", "k8s-worker"}),
	})
	if want := map[string]string{ours: "c1"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
