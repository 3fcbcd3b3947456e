package storagedriver

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of a folder for this process; another one waits. The kernel releases it when its holder dies.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
