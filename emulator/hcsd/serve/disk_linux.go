package serve

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
func (o Options) hasDisk(id string) bool {
	_, err := os.Stat(filepath.Join(o.layerDir(id), diskImage))
	return err == nil
}

// ownDirs are the folders for what a layer changes, and for the overlay's own use.
func (o Options) ownDirs(id string) (upper, work string) {
	dir := filepath.Join(o.layerDir(id), ownFiles)
	if o.hasDisk(id) {
		dir = filepath.Join(o.layerDir(id), diskPoint)
	}
	return filepath.Join(dir, "upper"), filepath.Join(dir, "work")
}

// makeDisk makes the file system of a layer. A run that is cut short leaves none.
func (o Options) makeDisk(ctx context.Context, id string, size uint64) (err error) {
	program, err := exec.LookPath("mkfs.ext4")
	if errors.Is(err, exec.ErrNotFound) {
		program, err = exec.LookPath("/usr/sbin/mkfs.ext4") // not in the path of every user
	}
	if err != nil {
		return hcsd.ErrNotSupported.WithText(
			"a disk with a size needs mkfs.ext4, which is not here: install e2fsprogs (%v)", err)
	}

	image := filepath.Join(o.layerDir(id), diskImage)
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
func (o Options) mountDisk(id string) error {
	if !o.hasDisk(id) {
		return nil
	}
	dir := o.layerDir(id)
	point := filepath.Join(dir, diskPoint)
	if err := os.MkdirAll(point, 0o755); err != nil {
		return err
	}
	mounted, err := wine.IsMounted(point)
	if err != nil {
		return err
	}
	if !mounted {
		if err := mountImage(filepath.Join(dir, diskImage), point); err != nil {
			return fmt.Errorf("mounting the disk of layer %s: %w", id, err)
		}
	}
	upper, work := o.ownDirs(id)
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

// expandSandbox gives the disk of a layer that nobody has used yet a size.
func (s layerCalls) expandSandbox(ctx context.Context, c call) (result, error) {
	size, err := parseSize(c.document())
	if err != nil {
		return result{}, err
	}

	return s.withLayer(c, func(l *layer) (result, error) {
		if err := s.ensure(l); err != nil {
			return result{}, err
		}
		st, err := s.readLayer(l.id)
		if err != nil || st.Size >= size {
			return result{}, err
		}
		upper, _ := s.o.ownDirs(l.id)
		if used, err := os.ReadDir(upper); err != nil || len(used) > 0 || st.Size > 0 {
			return result{}, errors.Join(err,
				hcsd.ErrNotSupported.WithText(
					"layer %s: a disk that is in use, or has been given a size, cannot be made larger", l.path))
		}
		if err := s.o.makeDisk(ctx, l.id, size); err != nil {
			return result{}, err
		}
		st.Size = size
		return result{}, s.writeLayer(l.id, st)
	})
}

// attachDisk attaches the disk of a layer, whose path is that of the disk's file (virtdisk.dll). It is a volume of the
// host then, with the container's own files only. On Windows that ends with the caller's handle; here it lasts until
// the layer is prepared, unprepared, deactivated or destroyed.
func (s layerCalls) attachDisk(_ context.Context, c call) (result, error) {
	folder, ok := cutSuffixFold(c.subject(), `\`+diskName)
	if !ok {
		return result{}, hcsd.ErrNotSupported.WithText(
			"%s: only disks of containers' layers can be attached, which have the name %s", c.subject(), diskName)
	}
	c.Text[1] = folder
	return s.withLayer(c, func(l *layer) (result, error) {
		if l.id == "" || !s.o.hasDisk(l.id) {
			return result{}, hcsd.ErrNotSupported.WithText("layer %s has no disk with a size of its own", l.path)
		}
		if err := s.o.mountDisk(l.id); err != nil {
			return result{}, err
		}
		return result{}, s.showVolume(l.id, diskPoint)
	})
}

// diskAttached reports whether a layer's disk is a volume of the host, without the layers below.
func (s layerCalls) diskAttached(id string) bool {
	mounted, err := wine.IsMounted(filepath.Join(s.o.layerDir(id), diskPoint))
	return err == nil && mounted
}

// unmountLayer takes the mounts of a layer away.
func (o Options) unmountLayer(id string) error {
	dir := o.layerDir(id)
	return errors.Join(guest.Unmount(filepath.Join(dir, "merged")), guest.Unmount(filepath.Join(dir, diskPoint)))
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if i := len(s) - len(suffix); i >= 0 && strings.EqualFold(s[i:], suffix) {
		return s[:i], true
	}
	return s, false
}
