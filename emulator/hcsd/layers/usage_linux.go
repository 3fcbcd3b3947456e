package layers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/internal/beneath"
)

// On Windows the disk of a container's own layer is a file in the layer's folder that grows with what the container
// writes, and containerd's snapshotter takes the size of the folder for what the container uses
// (plugins/snapshots/windows/common.go). Here the files lie in our folder. So the disk's file is given the size that
// these have; it is sparse and takes no room.
const (
	usageEvery = 5 * time.Second // containerd asks each 10 s
	usageLimit = time.Second     // for one layer: a container can have any number of files
)

// errUsageLimit says that only a part of a layer was measured.
var errUsageLimit = errors.New("measuring takes too long")

// KeepUsage keeps the sizes of disks until ctx ends.
func (s *Store) KeepUsage(ctx context.Context) {
	said := map[string]bool{} // layers whose trouble has been told
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		entries, err := os.ReadDir(s.host.Path("layers"))
		if err != nil {
			klog.FromContext(ctx).Error(err, "Listing layers to measure them")
			continue
		}
		for _, e := range entries {
			err := s.showUsage(e.Name())
			if err != nil && !said[e.Name()] {
				klog.FromContext(ctx).Error(err, "Measuring what a container has written", "layer", e.Name())
			}
			said[e.Name()] = err != nil
		}
	}
}

// showUsage gives the disk of one layer its size. A layer that is no container's, or has gone meanwhile, is passed
// over.
func (s *Store) showUsage(id string) error {
	// The lock is held while the state is read, not while the files are counted.
	b := s.backing(id)
	s.mu.Lock()
	st, err := b.read()
	upper, _ := b.own()
	onDisk := b.hasDisk()
	s.mu.Unlock()
	if err != nil || !st.Active || st.Folder == "" {
		return err
	}

	// A disk of its own knows what is used; otherwise the files are counted, for a limited time.
	var used int64
	if onDisk {
		used, err = usedOfDisk(filepath.Dir(upper))
	} else {
		used, err = usedBelow(upper, time.Now().Add(usageLimit))
	}
	partial := errors.Is(err, errUsageLimit)
	if err != nil && !partial {
		return ignoreAbsent(err)
	}
	folder, err := s.host.Pin(st.Folder)
	if err != nil {
		return ignoreAbsent(err)
	}
	defer folder.Close()
	return ignoreAbsent(growDisk(folder.Path(), used, partial))
}

// ignoreAbsent takes what has gone for success.
func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// growDisk sets the size of the disk's file in a layer's folder. If only a part was measured, the file does not become
// smaller.
func growDisk(folder string, size int64, partial bool) error {
	root, err := hostfs.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(diskName, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s/%s is not a file", folder, diskName)
	}
	if size == info.Size() || partial && size < info.Size() {
		return nil
	}
	return f.Truncate(size)
}

// usedOfDisk is what is in use of the file system of a layer that has a disk with a size.
func usedOfDisk(point string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(point, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: point, Err: err}
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, nil
}

// usedBelow is what the files of a folder take on the disk. It follows no links and never leaves the folder, whatever
// the container does there meanwhile. If the limit is over, or a folder was moved, the result is what it had counted
// before, with errUsageLimit.
func usedBelow(dir string, limit time.Time) (int64, error) {
	folder, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	used, _, err := beneath.Usage(ctx, folder)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, beneath.ErrLost) {
		err = errUsageLimit
	}
	return int64(used), err
}
