package effect

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// nothing is a node without folders of pods.
type nothing struct{ removed []types.UID }

func (nothing) OnDisk() ([]types.UID, error) { return nil, nil }
func (n *nothing) Remove(_ context.Context, uid types.UID) error {
	n.removed = append(n.removed, uid)
	return nil
}
func (nothing) Sweep(context.Context) {}

// noCgroups are cgroups of which only the removal is asked for.
type noCgroups struct{ Cgroups }

func (noCgroups) RemovePod(types.UID) error { return nil }

// TestNamesAreNoPatterns: a container that has the folder of all logs mounted makes one whose name is a pattern. That
// folder is no pod's, and no folder goes because of it.
func TestNamesAreNoPatterns(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "pods")
	names := []string{"a_b_*", "a_b_????????-????", "a_b_[12]*", "ns_db_22222222-2222", "ns_web_11111111-1111"}
	for _, name := range append(names, "ns_gone_33333333-3333") {
		if err := os.MkdirAll(filepath.Join(logs, name, "app"), 0o755); err != nil {
			t.Skip("no such names here:", err)
		}
	}
	n := &nothing{}
	f := &Folders{Pods: n, Cgroups: noCgroups{}, Logs: logs}
	known := []types.UID{"11111111-1111", "22222222-2222"}
	f.RemoveUnknown(t.Context(), func(uid types.UID) bool { return slices.Contains(known, uid) })

	if left := namesOf(logs); !slices.Equal(left, names) || !slices.Equal(n.removed, []types.UID{"33333333-3333"}) {
		t.Errorf("left are %q, removed was %q", left, n.removed)
	}
	if err := f.Remove(t.Context(), "*"); err != nil || len(namesOf(logs)) != len(names)-1 {
		t.Errorf("one name that is a pattern: left are %q, %v", namesOf(logs), err)
	}

	links := f.links()
	if err := os.MkdirAll(links, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web_ns_app-abc.log", "db_ns_app-def.log"} {
		if err := os.Symlink(filepath.Join(logs, "ns_web_11111111-1111"), filepath.Join(links, name)); err != nil {
			t.Skip("no links here:", err)
		}
	}
	if err := f.removeLog(observed.Container{ID: "*",
		LogPath: filepath.Join(logs, "ns_web_11111111-1111", "app", "0.log")}); err != nil {
		t.Fatal(err)
	}
	if left := namesOf(links); len(left) != 2 {
		t.Errorf("left are the links %q", left)
	}
}
