package atomicfile

import (
	"errors"
	"time"

	"golang.org/x/sys/windows"
)

// A reader that has the file open, such as a program written in Go or a virus scanner, closes it again within moments.
const (
	attempts = 10
	pause    = 100 * time.Millisecond
)

// replace uses MOVEFILE_WRITE_THROUGH, with which MoveFileEx returns when the rename is on the disk. os.Rename does
// not.
func replace(from, to string) error {
	old, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		err := windows.MoveFileEx(old, name, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
		inUse := errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
		if !inUse || i == attempts {
			return err
		}
		time.Sleep(pause)
	}
}

// syncFolder does nothing: replace has written the name through.
func syncFolder(string) error { return nil }
