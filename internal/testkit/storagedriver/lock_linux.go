package storagedriver

import "porthole.dev/porthole/internal/platform"

// lock takes the lock of a folder for this process; another one waits. The kernel releases it when its holder dies.
func lock(file string) (unlock func(), err error) { return platform.LockFile(file, 0o644) }
