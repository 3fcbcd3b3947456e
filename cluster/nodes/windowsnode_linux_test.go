package nodes

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
)

// TestPrograms installs the programs of Windows nodes, once more, and again after one of them was built anew with the
// same size.
func TestPrograms(t *testing.T) {
	l := layout.Layout{Dir: t.TempDir(), Bin: t.TempDir()}
	build := func(name, text string, at time.Time) {
		t.Helper()
		path := l.WindowsExe(name)
		if err := install.File(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, name := range []string{"porthole", "kube-proxy", "win-bridge"} {
		build(name, name+" 1", at)
	}

	installed := func() map[string]os.FileInfo {
		t.Helper()
		dir, err := ensurePrograms(l)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]os.FileInfo{}
		for _, name := range []string{"k/porthole.exe", "k/kubelet.exe", "k/kube-proxy.exe",
			"opt/cni/bin/win-bridge.exe"} {
			if found[name], err = os.Stat(filepath.Join(dir, "drive_c", name)); err != nil {
				t.Fatal(err)
			}
		}
		return found
	}
	first, second := installed(), installed()
	for name := range first {
		if !os.SameFile(first[name], second[name]) {
			t.Errorf("%s was copied again", name)
		}
	}
	if !os.SameFile(first["k/porthole.exe"], first["k/kubelet.exe"]) {
		t.Error("kubelet.exe is not the same file as porthole.exe")
	}

	build("porthole", "porthole 2", at.Add(-time.Hour)) // of another checkout, built earlier
	third := installed()
	text, err := os.ReadFile(filepath.Join(l.WindowsPrograms(), "drive_c", "k", "kubelet.exe"))
	if err != nil || string(text) != "porthole 2" {
		t.Errorf("kubelet.exe is %q, %v; want the one that was built last", text, err)
	}
	if !os.SameFile(second["k/kube-proxy.exe"], third["k/kube-proxy.exe"]) {
		t.Error("kube-proxy.exe was copied again")
	}
}
