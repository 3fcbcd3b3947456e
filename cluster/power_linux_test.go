package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
)

// TestForgetUnwritten removes images and the marks of templates, and nothing else. A host's programs have put a link
// in the place of a folder.
func TestForgetUnwritten(t *testing.T) {
	l, c := layout.Layout{Dir: t.TempDir()}, config.Default()
	at := func(name string) string { return filepath.Join(l.Dir, name) }
	outside := filepath.Join(t.TempDir(), "containerd")
	stay := []string{outside, at("controlplane/etcd/wal"), at("hosts/lin01/kubelet/pods/p/volume"),
		at("hosts/lin01/containerd/config.toml"), at("hosts/win01/wine/upper/drive_c/Users/a.txt"),
		at("wine/template-20348/system.reg")}
	gone := []string{at("hosts/lin01/containerd/root/snapshots/3/fs/coredns"), at("hosts/lin01/containerd/state/x"),
		at("hosts/win01/wine/upper/drive_c/ProgramData/containerd/root/meta.db"),
		at("hosts/win01/hcs/layers/1/layer.json"), at("wine/template-20348/.porthole-template")}
	for _, file := range append(stay, gone...) {
		if err := install.File(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := at("hosts/win02/wine/upper/drive_c/ProgramData")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), link); err != nil {
		t.Fatal(err)
	}

	if err := forgetUnwritten(l, c); err == nil {
		t.Error("a link out of the prefix went unnoticed")
	}
	for _, file := range stay {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	for _, file := range gone {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is still there", file)
		}
	}

	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := forgetUnwritten(l, c); err != nil {
		t.Errorf("a second time: %v", err)
	}
}
