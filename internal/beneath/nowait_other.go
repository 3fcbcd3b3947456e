//go:build !windows

package beneath

import "syscall"

// noWait keeps an open from waiting for the other end of a named pipe.
const noWait = syscall.O_NONBLOCK
