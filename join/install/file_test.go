package install

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/join/step"
)

// runner returns an engine whose journal is kept in memory.
func runner(j *step.Journal) *step.Runner {
	return &step.Runner{Journal: j, Save: func(step.Journal) error { return nil }, Now: time.Now}
}

// TestFile: a file that was there before comes back, one of ours goes with its folder.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	had := filepath.Join(dir, "had", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(had), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(had, []byte("of somebody else"), 0o640); err != nil {
		t.Fatal(err)
	}
	content := func() []byte { return []byte("ours") }
	steps := []step.Step{
		File{Name: "had", Path: had, Perm: 0o644, Content: content},
		File{Name: "new", Path: filepath.Join(dir, "a", "b", "new"), Perm: 0o600, Content: content, Private: true},
		File{Name: "left alone", Path: had, Content: content, OnlyNew: true},
	}

	j := step.NewJournal("n", "s")
	for range 2 {
		results, err := runner(&j).Run(t.Context(), steps)
		if err != nil || results[2].Result != "unchanged" {
			t.Fatalf("%v: %+v", err, results)
		}
	}
	if text, _ := os.ReadFile(had); string(text) != "ours" {
		t.Errorf("the file holds %q", text)
	}

	if _, err := runner(&j).Undo(t.Context(), steps); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(had); string(text) != "of somebody else" {
		t.Errorf("after undo the file holds %q", text)
	}
	for _, gone := range []string{filepath.Join(dir, "a"), had + ".before-porthole", had + ".new"} {
		if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left", gone)
		}
	}
}

func TestKubelet(t *testing.T) {
	o := KubeletOptions{Runtime: "unix:///run/c.sock", Labels: "a=b", Taints: "k=v:NoSchedule",
		Extra:   []string{"--max-pods=50"},
		Patches: [][]byte{[]byte("evictionHard: {memory.available: 1Gi, nodefs.available: null}\n")}}
	text, err := KubeletConfig(
		"kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nevictionHard: {nodefs.available: 10%, imagefs.available: 15%}\n", o)
	if err != nil {
		t.Fatal(err)
	}
	want :=
		"clusterDNS:\n- 10.96.0.10\ncontainerRuntimeEndpoint: unix:///run/c.sock\nevictionHard:\n  imagefs.available: 15%\n  memory.available: 1Gi\nkind: KubeletConfiguration\n"
	if string(text) != want {
		t.Errorf("config.yaml:\n%s\nwant:\n%s", text, want)
	}
	n := &Node{Name: "lin07", IP: "10.0.0.7"}
	env :=
		`KUBELET_KUBEADM_ARGS="--hostname-override=lin07 --node-ip=10.0.0.7 --node-labels=a=b --register-with-taints=k=v:NoSchedule --max-pods=50"` + "\n"
	if got := n.FlagsEnv(o); string(got) != env {
		t.Errorf("kubeadm-flags.env: %s", got)
	}
	if _, err := KubeletConfig("a: [", o); err == nil {
		t.Error("a broken configuration is taken")
	}
}

func TestEnvironmentFile(t *testing.T) {
	got := string(EnvironmentFile(map[string]string{"HTTPS_PROXY": `http://u:p"$\@10.0.0.1:3128`, "A": "b c"}))
	if want := "A=\"b c\"\nHTTPS_PROXY=\"http://u:p\\\"\\$\\\\@10.0.0.1:3128\"\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := EnvironmentFile(nil); len(got) > 0 {
		t.Errorf("%q for nothing", got)
	}
}

// TestUndoOfNothing: what was never there is undone without an error.
func TestUndoOfNothing(t *testing.T) {
	null, _ := json.Marshal(nil)
	f := File{Name: "f", Path: filepath.Join(t.TempDir(), "none", "f")}
	if err := f.Undo(t.Context(), null); err != nil {
		t.Error(err)
	}
}
