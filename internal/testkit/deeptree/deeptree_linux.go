// Package deeptree makes trees of folders as a hostile container does: so deep that the path of the lowest is too long
// for any call.
package deeptree

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Make makes folders below each other in dir, all of one name, with a file called "file" of size bytes in the lowest.
func Make(t *testing.T, dir, name string, levels, size int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		next := -1
		if err = unix.Mkdirat(fd, name, 0o700); err == nil {
			next, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}

	f, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	unix.Close(fd)
	if err == nil {
		_, err = unix.Write(f, make([]byte, size))
		err = errors.Join(err, unix.Close(f))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// WithFewFiles runs f while this process may have no more files open than few, and returns the bytes that f allocated
// in all.
func WithFewFiles(t *testing.T, few uint64, f func()) (allocated uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: few, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return after.TotalAlloc - before.TotalAlloc
}
