package containerdconf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestContainerdReadsIt has the real containerd read our file and print what it understood.
func TestContainerdReadsIt(t *testing.T) {
	containerd, err := filepath.Abs("../../bin/bundle/containerd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(containerd); err != nil {
		t.Fatalf("%v (run `make bundle`)", err)
	}
	dir := t.TempDir()
	o := Options{Dir: dir, Registry: "http://10.99.0.1:5000", CNIConfDir: filepath.Join(dir, "net.d"),
		CNIBinDir: filepath.Join(dir, "bin"), RuncPath: "/opt/runc"}
	for range 2 {
		if err := Write(o); err != nil {
			t.Fatal(err)
		}
	}

	out, err := exec.Command(containerd, "--config", o.File(), "config", "dump").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "migrated") {
		t.Error("containerd had to migrate the file")
	}
	for _, want := range []string{
		"root = '" + o.Root() + "'", "address = '" + o.Socket() + "'", "restrict_oom_score_adj = true",
		"sandbox = 'porthole/pause:linux'",
		"config_path = '" + o.CertsDir() + "'", "bin_dirs = ['" + o.CNIBinDir + "']",
		"conf_dir = '" + o.CNIConfDir + "'", "BinaryName = '/opt/runc'",
		"SystemdCgroup = false", "snapshotter = 'overlayfs'",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("containerd did not take %s", want)
		}
	}
}

func TestCheck(t *testing.T) {
	good := Options{Dir: "/var/lib/x", CNIConfDir: "/c", CNIBinDir: "/b"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	deep := good
	deep.Dir = "/" + strings.Repeat("d", 100)
	for _, bad := range []Options{{}, {Dir: "/x"}, deep} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
