package disk

import (
	"errors"

	"golang.org/x/sys/windows"
)

// OnWindows says whether this program is one for Windows.
const OnWindows = true

// NoFollow is a flag of os.OpenFile: on other systems a link is refused, and a named pipe is not waited for.
const NoFollow = 0

// IsBusy reports whether another program holds the file.
func IsBusy(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
		errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}
