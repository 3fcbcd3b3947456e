//go:build !windows

package kubeproxy

import (
	"context"
	"errors"
	"fmt"
)

// supported says whether this system has a mode.
func supported(mode string) error {
	if mode == kernelspace {
		return errors.New("mode kernelspace needs Windows and its Host Networking Service; Linux nodes use upstream's kube-proxy, or --proxy-mode=userspace")
	}
	return fmt.Errorf("mode %s is not in this program", mode)
}

func (p *parts) mode(context.Context) (running, error) { return running{}, supported(p.settings.mode) }

func cleanup(_ context.Context, s *settings) error { return supported(s.mode) }

// asService runs directly: there is no service manager to answer.
func asService(ctx context.Context, _ *settings, run func(context.Context) error) error {
	return run(ctx)
}
