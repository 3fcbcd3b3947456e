package platform

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Where mounts are private, as in a container, the folder becomes a shared mount, once; afterwards it is none.
func TestShareMounts(t *testing.T) {
	if !inPrivateRun(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "kubelet")
	volume := filepath.Join(dir, "pods", "volume") // of a pod that an earlier kubelet started
	must(t, os.MkdirAll(volume, 0o755))
	must(t, unix.Mount("tmpfs", volume, "tmpfs", 0, ""))
	must(t, os.Mkdir(filepath.Join(volume, "inner"), 0o755))
	must(t, unix.Mount("tmpfs", filepath.Join(volume, "inner"), "tmpfs", 0, ""))
	for range 2 {
		must(t, ShareMounts(dir))
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if !isShared(string(table), dir) || !isShared(string(table), filepath.Join(dir, "pods")) {
		t.Error("the folder is not shared")
	}

	must(t, unix.Unmount(filepath.Join(volume, "inner"), 0))
	must(t, unix.Unmount(volume, 0))
	must(t, os.RemoveAll(filepath.Join(dir, "pods"))) // busy if the mount was there twice
	must(t, UnshareMounts(dir))
	must(t, UnshareMounts(dir))
	if err := os.Remove(dir); err != nil {
		t.Errorf("the folder is still a mount: %v", err)
	}
	must(t, UnshareMounts(dir))
}

func TestIsShared(t *testing.T) {
	const table = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 8:2 / /var rw,relatime - ext4 /dev/sda2 rw
31 30 8:2 /lib/kubelet /var/lib/kubelet rw,relatime shared:9 master:3 - ext4 /dev/sda2 rw
32 30 8:3 / /var/lib/with\040space rw master:3 shared:4 - ext4 shared:7 rw
33 22 8:4 / /mnt rw - ext4 shared:7 rw
`
	for path, want := range map[string]bool{"/": true, "/etc": true, "/var": false, "/variety": true, "/var/lib": false,
		"/var/lib/kubelet":      true,
		"/var/lib/kubelet/pods": true, "/var/lib/kubelets": false, "/var/lib/with space/x": true, "/mnt/x": false} {
		if got := isShared(table, path); got != want {
			t.Errorf("%s: shared %t, want %t", path, got, want)
		}
	}
}
