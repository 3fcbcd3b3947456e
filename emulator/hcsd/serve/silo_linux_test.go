package serve

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestSilos has a program make silos with files of their own, and run programs in them, as hcsshim does for
// HostProcess containers.
func TestSilos(t *testing.T) {
	h := startHost(t)
	h.write("layers/one/name.txt", "one")
	h.write("layers/other/name.txt", "other")
	h.write("data/file.txt", "data")
	h.write("etc/.keep", "")
	check(t, os.MkdirAll(filepath.Join(h.prefix.DriveC(), "hpc"), 0o755))
	h.built("silo", "windows/silo.exe")

	out, err := h.command(`C:\windows\silo.exe`).CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("%v\n%s", err, out)
	}
	h.says(string(out),
		"silo false, then true", "rootfs 0x0 0x0", "mount 0x0 0x0", "absent 0x80070003 0x80070003",
		"one one", "other other", "child data<nil> data<nil>", "slash data<nil>", `host C:\hpc\name.txt false`,
		`host C:\layers\one\new.txt true`, `host C:\data\new.txt false`,
		"pids true times true active 1 memory true true", "in job 1", "terminated 5",
		`global "data" <nil> [{MountPoint:C:\bound Flags:1 Targets:[C:\data]}] <nil>`, "removed true true")
	t.Logf("%s", out)

	wait.True(t, 20*time.Second, "the silos end with their program", func() bool {
		left, err := filepath.Glob(filepath.Join(h.o.HostDir, "s[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"))
		return err == nil && len(left) == 0
	})
	mounts, err := platform.MountPointsBelow(h.o.HostDir)
	if err != nil || len(mounts) != 1 { // the prefix
		t.Errorf("mounted: %v, %v", mounts, err)
	}
	for _, name := range []string{"etc/mount", "etc/file.txt", "bound"} {
		if _, err := os.Lstat(filepath.Join(h.prefix.DriveC(), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left on C: %s, %v", name, err)
		}
	}
}
