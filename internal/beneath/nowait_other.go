//go:build !windows

package beneath

import "syscall"

// NoWait is a flag of os.OpenFile. It keeps an open from waiting for the other end of a named pipe.
const NoWait = syscall.O_NONBLOCK
