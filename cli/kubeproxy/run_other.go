//go:build !windows

package kubeproxy

import (
	"context"
	"errors"
)

func unsupported() error {
	return errors.New("kube-proxy: mode kernelspace needs Windows and its Host Networking Service; Linux nodes use upstream's kube-proxy")
}

func run(ctx context.Context, s settings) error {
	_ = logging(ctx, s.verbosity)
	return unsupported()
}
