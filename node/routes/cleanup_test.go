package routes

import (
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/routes/podnet"
)

func TestRemoveConf(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{podnet.WindowsConfName, bootrecord.Network, bootrecord.Network + ".new", NodesFile,
		"20-other.conf"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := removeConf(Options{ConfDir: dir, StateDir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "20-other.conf" {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := removeConf(Options{}); err != nil {
		t.Error(err)
	}
}
