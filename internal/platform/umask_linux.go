package platform

import "golang.org/x/sys/unix"

// SetUmask gives this process, and what it starts, the umask that most systems have. The files of a host are then what
// they are everywhere: with another umask of the caller its programs could not read them, or anybody could write them.
func SetUmask() { unix.Umask(0o022) }
