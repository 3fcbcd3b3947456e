//go:build !linux && !windows

package disk

// OnWindows says whether this program is one for Windows.
const OnWindows = false

// NoFollow is a flag of os.OpenFile: on other systems a link is refused, and a named pipe is not waited for.
const NoFollow = 0

// IsBusy reports whether another program holds the file. That keeps nobody out on this system.
func IsBusy(error) bool { return false }
