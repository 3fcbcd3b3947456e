//go:build !linux

package usage

import "errors"

func sizeOf(string, *Filesystem) bool { return false }

// Peer returns an error: only Linux tells.
func Peer(string) (pid int, err error) { return 0, errors.ErrUnsupported }
