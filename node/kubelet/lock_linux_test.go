package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLockFile(t *testing.T) {
	held := filepath.Join(t.TempDir(), "held")
	f, err := os.Create(held)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := lockFile(ended, held, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the lock that another holds: %v", err)
	}
	if err := lockFile(t.Context(), filepath.Join(held, "no"), nil); err == nil ||
		!strings.Contains(err.Error(), "opening the lock file") {
		t.Errorf("a path that cannot be: %v", err)
	}

	free, contended := filepath.Join(t.TempDir(), "free"), make(chan bool)
	if err := lockFile(t.Context(), free, func() { close(contended) }); err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(free)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := unix.Flock(int(again.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("the lock is not held: %v", err)
	}
	select {
	case <-contended:
	case <-time.After(10 * time.Second):
		t.Error("nobody was told that another process opened the file")
	}
}

func TestTakeLock(t *testing.T) {
	if err := takeLock(t.Context(), &Options{}, nil); err != nil {
		t.Errorf("without a lock file: %v", err)
	}
	if err := takeLock(t.Context(), &Options{LeaveOnContention: true}, nil); err == nil ||
		!strings.Contains(err.Error(), "no lock file specified") {
		t.Errorf("contention without a lock file: %v", err)
	}
	if err := takeLock(t.Context(), &Options{LockFile: filepath.Join(t.TempDir(), "lock")},
		func() { t.Error("told of contention") }); err != nil {
		t.Error(err)
	}
}
