package layers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
)

// The disk of a container's own layer. Without a size its files lie on the disk of this machine, and have all room
// there. With one they lie on a file system of their own, in a sparse file: programs see its size, and a write that
// does not fit fails.
const (
	diskName  = "sandbox.vhdx" // of a layer's disk, in its folder
	diskImage = "disk.img"     // what is mounted in its place, in our folder
	diskPoint = "disk"         // where
)

// defaultDisk is the size that a container's disk has when nobody says one (Microsoft, "Container storage overview").
// Nobody gets a smaller one: ExpandSandboxSize makes disks larger only (hcsshim,
// internal/wclayer/expandscratchsize.go: "at least").
const defaultDisk = 20 << 30

// diskFiles is how many files have room on a disk. What ext4 keeps of each takes 256 bytes of it.
const diskFiles = "500000"

// hasDisk reports whether a layer lies on a disk of its own.
func (b backing) hasDisk() bool {
	_, err := os.Stat(filepath.Join(b.dir, diskImage))
	return err == nil
}

// makeDisk makes the file system of a layer. A run that is cut short leaves none.
func (b backing) makeDisk(ctx context.Context, size uint64) (err error) {
	program, err := exec.LookPath("mkfs.ext4")
	if errors.Is(err, exec.ErrNotFound) {
		program, err = exec.LookPath("/usr/sbin/mkfs.ext4") // not in the path of every user
	}
	if err != nil {
		return hcsd.ErrNotSupported.WithText(
			"a disk with a size needs mkfs.ext4, which is not here: install e2fsprogs (%v)", err)
	}

	image := filepath.Join(b.dir, diskImage)
	temp := image + ".new"
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	if err := os.WriteFile(temp, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(temp, int64(size)); err != nil {
		return fmt.Errorf("making a disk of %d bytes: %w", size, err)
	}
	// Without a journal: a container's own layer need not survive the end of the machine.
	out, err := exec.CommandContext(ctx, program, "-q", "-F", "-m", "0", "-O", "^has_journal,^resize_inode", "-N",
		diskFiles, temp).CombinedOutput()
	if err != nil {
		return fmt.Errorf("making a disk of %d bytes: %w: %s", size, err, strings.TrimSpace(string(out)))
	}
	return os.Rename(temp, image)
}

// mountDisk mounts the disk of a layer, if it has one.
func (b backing) mountDisk() error {
	if !b.hasDisk() {
		return nil
	}
	point := filepath.Join(b.dir, diskPoint)
	if err := os.MkdirAll(point, 0o755); err != nil {
		return err
	}
	mounted, err := wine.IsMounted(point)
	if err != nil {
		return err
	}
	if !mounted {
		if err := mountImage(filepath.Join(b.dir, diskImage), point); err != nil {
			return fmt.Errorf("mounting the disk of layer %s: %w", filepath.Base(b.dir), err)
		}
	}
	upper, work := b.own()
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o700)); err != nil {
		return err
	}
	return ownFolder(upper)
}

// mountImage mounts a file system in a file. What is deleted there is given back to this machine, and nothing is
// written ahead.
func mountImage(image, point string) error {
	device, err := attachLoop(image)
	if err != nil {
		return err
	}
	defer device.Close() // the mount holds it; with the mount it ends
	return unix.Mount(device.Name(), point, "ext4", 0, "discard,noinit_itable")
}

const loopMajor = 7 // Documentation/admin-guide/devices.txt of Linux

// attachLoop gives a file a block device, which ends with its last use.
func attachLoop(image string) (*os.File, error) {
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("a disk with a size needs loop devices: %w", err)
	}
	defer control.Close()

	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("finding a loop device: %w", err)
		}
		name := fmt.Sprintf("/dev/loop%d", n)
		if err := unix.Mknod(name, unix.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(n)))); err != nil &&
			!errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("making %s: %w", name, err)
		}
		device, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) { // another program was sooner
			return nil, fmt.Errorf("using %s: %w", name, err)
		}
	}
}

// unmount takes the mounts of a layer away.
func (b backing) unmount() error {
	return errors.Join(guest.Unmount(b.merged()), guest.Unmount(filepath.Join(b.dir, diskPoint)))
}

// diskAttached reports whether the disk is mounted, which without the layers below is a volume of the host.
func (b backing) diskAttached() bool {
	mounted, err := wine.IsMounted(filepath.Join(b.dir, diskPoint))
	return err == nil && mounted
}
