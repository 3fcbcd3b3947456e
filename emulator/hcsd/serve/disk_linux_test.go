package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// TestDisk: a layer's disk has the size that it was given, for all who look and for what is written, and ends with the
// layer.
func TestDisk(t *testing.T) {
	h := startLayerHost(t)
	h.write("layers/1/Files/a", "base")
	h.write("layers/9/sandbox.vhdx", "disk")
	h.refused(hcsd.ErrNotSupported, "AttachVirtualDisk", `C:\layers\9\sandbox.vhdx`)
	for _, size := range []string{"", "-1", "9223372036854775808", "20G"} {
		h.refused(hcsd.ErrInvalidArgument, "ExpandSandboxSize", `C:\layers\9`, size)
	}
	const size = 30 << 30
	h.must("ExpandSandboxSize", `C:\layers\9`, strconv.Itoa(size))
	h.must("ExpandSandboxSize", `C:\layers\9`, "4096") // never smaller
	h.refused(hcsd.ErrNotSupported, "ExpandSandboxSize", `C:\layers\9`, strconv.Itoa(2*size))
	h.refused(hcsd.ErrNotReady, "GetLayerMountPath", `C:\layers\9`)

	h.refused(hcsd.ErrNotSupported, "AttachVirtualDisk", `C:\layers\9\other.vhdx`)
	h.must("AttachVirtualDisk", `C:\layers\9\Sandbox.vhdx`)
	id, ok := hcsd.LayerOfVolume(h.must("GetLayerMountPath", `C:\layers\9`))
	if !ok {
		t.Fatal("no volume")
	}
	volume := filepath.Join(h.o.host().DriveC(), "System Volume Information", "{"+id+"}")
	hasSize(t, volume, size)

	h.must("ActivateLayer", `C:\layers\9`)
	h.must("PrepareLayer", `C:\layers\9`, `C:\layers\1`)
	hasSize(t, volume, size)
	if got, err := os.ReadFile(filepath.Join(volume, "a")); err != nil || string(got) != "base" {
		t.Errorf("%q, %v", got, err)
	}
	f, err := os.Create(filepath.Join(volume, "big"))
	check(t, err)
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size*9/10); err != nil {
		t.Errorf("nine tenths of the disk: %v", err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the whole disk: %v, want no space", err)
	}
	check(t, f.Close())

	h.must("UnprepareLayer", `C:\layers\9`)
	if mounted, err := wine.IsMounted(filepath.Join(h.o.host().LayerDir(id), "disk")); err != nil || mounted {
		t.Errorf("the disk is mounted: %v, %v", mounted, err)
	}
	h.must("PrepareLayer", `C:\layers\9`, `C:\layers\1`)
	if _, err := os.Stat(filepath.Join(volume, "big")); err != nil {
		t.Errorf("what was written: %v", err)
	}
	h.must("DestroyLayer", `C:\layers\9`)
	if left, err := os.ReadDir(h.o.host().Path("layers")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestDiskInUse: a layer with files of its own cannot be laid on a disk.
func TestDiskInUse(t *testing.T) {
	h := startLayerHost(t)
	h.write("layers/1/Files/a", "base")
	h.write("layers/9/sandbox.vhdx", "disk")
	h.must("ActivateLayer", `C:\layers\9`)
	h.must("PrepareLayer", `C:\layers\9`, `C:\layers\1`)
	id, _ := hcsd.LayerOfVolume(h.must("GetLayerMountPath", `C:\layers\9`))
	check(t, os.WriteFile(filepath.Join(h.o.host().MergedDir(id), "b"), nil, 0o644))
	h.refused(hcsd.ErrNotSupported, "ExpandSandboxSize", `C:\layers\9`, strconv.Itoa(30<<30))
	h.must("DestroyLayer", `C:\layers\9`)
}

// TestReboot: when the host's kernel ends, no layer stays mounted, and what is in it is there again when it is
// prepared.
func TestReboot(t *testing.T) {
	h := startLayerHost(t)
	check(t, Reboot(t.Context(), h.o.HostDir)) // nobody serves the control interface
	server, err := h.s.serveControl(t.Context())
	check(t, err)
	defer server.Close()
	h.write("layers/1/Files/a", "base")
	h.write("layers/9/sandbox.vhdx", "disk")
	h.must("ExpandSandboxSize", `C:\layers\9`, strconv.Itoa(30<<30))
	h.must("ActivateLayer", `C:\layers\9`)
	h.must("PrepareLayer", `C:\layers\9`, `C:\layers\1`)
	id, _ := hcsd.LayerOfVolume(h.must("GetLayerMountPath", `C:\layers\9`))
	check(t, os.WriteFile(filepath.Join(h.o.host().MergedDir(id), "b"), nil, 0o644))

	check(t, Reboot(t.Context(), h.o.HostDir))
	mounts, err := platform.MountPointsBelow(h.o.HostDir)
	check(t, err)
	if len(mounts) > 0 {
		t.Errorf("mounted: %q", mounts)
	}
	h.refused(hcsd.ErrNotReady, "PrepareLayer", `C:\layers\9`, `C:\layers\1`)
	h.must("ActivateLayer", `C:\layers\9`)
	h.must("PrepareLayer", `C:\layers\9`, `C:\layers\1`)
	if _, err := os.Stat(filepath.Join(h.o.host().MergedDir(id), "b")); err != nil {
		t.Error(err)
	}
}

// hasSize fails the test if a file system has not the size of a disk, less what it takes itself.
func hasSize(t *testing.T, path string, disk uint64) {
	t.Helper()
	var fs unix.Statfs_t
	check(t, unix.Statfs(path, &fs))
	total, free := fs.Blocks*uint64(fs.Bsize), fs.Bavail*uint64(fs.Bsize)
	if total > disk || total < disk-300<<20 || free < disk-300<<20 {
		t.Errorf("%s has %d bytes, %d free, want those of a disk of %d", path, total, free, disk)
	}
}
