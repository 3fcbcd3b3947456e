//go:build !windows

package kubeproxy

import (
	"context"
	"errors"
)

// supported says whether this system has a mode.
func supported(mode string) error {
	if mode == kernelspace {
		return errors.New("mode kernelspace needs Windows and its Host Networking Service; Linux nodes use upstream's kube-proxy, or --proxy-mode=userspace")
	}
	return nil
}

func (p *parts) mode(ctx context.Context) (running, error) {
	if err := supported(p.settings.mode); err != nil {
		return running{}, err
	}
	return p.userspaceMode(ctx), nil
}

func cleanup(ctx context.Context, s *settings) error { return cleanupUserspace(ctx, s) }

// asService runs directly: there is no service manager to answer.
func asService(ctx context.Context, _ *settings, run func(context.Context) error) error {
	return run(ctx)
}
