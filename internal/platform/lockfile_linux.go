package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

// LockFile waits for the lock of a file, which it makes if it is absent. The kernel releases the lock when its holder
// ends.
func LockFile(path string, mode os.FileMode) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, mode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
