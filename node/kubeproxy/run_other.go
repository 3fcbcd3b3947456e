//go:build !windows

package kubeproxy

import (
	"context"
	"errors"
)

// Supported returns an error if this system does not have a mode.
func Supported(mode string) error {
	if mode == Kernelspace {
		return errors.New(
			"mode kernelspace needs Windows and its Host Networking Service; Linux nodes use upstream's kube-proxy, or --proxy-mode=userspace")
	}
	return nil
}

func (p *parts) mode(ctx context.Context) (running, error) {
	if err := Supported(p.Mode); err != nil {
		return running{}, err
	}
	return p.userspaceMode(ctx), nil
}

// Cleanup removes from the host what an earlier run left.
func Cleanup(ctx context.Context, given Options) error { return cleanupUserspace(ctx, given) }
