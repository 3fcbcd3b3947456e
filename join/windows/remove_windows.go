package windows

import (
	"errors"

	sys "golang.org/x/sys/windows"
)

// removeProgram removes a program. One that runs, such as the one that removes it, cannot be removed: Windows does so
// at its next start.
func removeProgram(path string) error {
	err := removeFile(path)
	if !errors.Is(err, sys.ERROR_ACCESS_DENIED) && !errors.Is(err, sys.ERROR_SHARING_VIOLATION) {
		return err
	}
	name, convert := sys.UTF16PtrFromString(path)
	if convert != nil {
		return convert
	}
	return sys.MoveFileEx(name, nil, sys.MOVEFILE_DELAY_UNTIL_REBOOT)
}
