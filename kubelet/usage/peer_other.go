//go:build !linux

package usage

import "errors"

// Peer returns an error: only Linux tells.
func Peer(string) (pid int, err error) { return 0, errors.ErrUnsupported }
