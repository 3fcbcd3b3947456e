//go:build failpoint && linux

package join

import (
	"os"
	"syscall"
)

// Programs that tests build with the tag failpoint end at the point that PORTHOLE_FAILPOINT names, as a power failure would end them.
func init() {
	testPoint = func(point string) {
		if point == os.Getenv("PORTHOLE_FAILPOINT") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}
