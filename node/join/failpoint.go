//go:build failpoint

package join

import "os"

// Programs that tests build with the tag failpoint end at the point that PORTHOLE_FAILPOINT names, as a power failure
// would end them.
func init() {
	testPoint = func(point string) {
		if point != os.Getenv("PORTHOLE_FAILPOINT") {
			return
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill() // there is nobody to tell
		}
		// Kill returns before the process has ended; nothing must run meanwhile.
		select {}
	}
}
