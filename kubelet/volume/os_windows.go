package volume

import (
	"errors"

	"golang.org/x/sys/windows"
)

const onWindows = true

const noFollow = 0 // of os.OpenFile

func isBusy(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
		errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}
