package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// lockFile waits for the lock of a file, which it makes, and keeps it until this process ends. If contended is not
// nil, it is called once another process opens the file or deletes it: that is how another kubelet asks for the node.
func lockFile(ctx context.Context, path string, contended func()) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600) // stays open: the lock goes with it
	if err != nil {
		return fmt.Errorf("opening the lock file %s: %w", path, err)
	}
	locked := make(chan error, 1)
	go func() {
		err := unix.Flock(fd, unix.LOCK_EX)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(fd, unix.LOCK_EX)
		}
		locked <- err
	}()

	select {
	case err = <-locked:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	if contended == nil {
		return nil
	}
	return watchLock(ctx, path, contended)
}

// watchLock calls contended once, when somebody opens or deletes the lock file. It ends with ctx.
func watchLock(ctx context.Context, path string, contended func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching the lock file %s: %w", path, err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_DELETE_SELF); err != nil {
		return errors.Join(fmt.Errorf("watching the lock file %s: %w", path, err), events.Close())
	}

	closed := context.AfterFunc(ctx, func() { _ = events.Close() })
	go func() {
		var event [unix.SizeofInotifyEvent + unix.PathMax]byte
		if _, err := events.Read(event[:]); err == nil {
			klog.FromContext(ctx).Info("Another process wants the lock file: the kubelet ends", "path", path)
			contended()
		}
		if closed() {
			_ = events.Close()
		}
	}()
	return nil
}
