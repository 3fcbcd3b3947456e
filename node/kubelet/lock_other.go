//go:build !linux

package kubelet

import (
	"context"
	"errors"
)

// lockFile always fails: upstream has lock files on Linux only.
func lockFile(context.Context, string, func()) error {
	return errors.New("--lock-file is for Linux")
}
