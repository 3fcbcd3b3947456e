//go:build !linux

package kubelet

import (
	"context"

	v1beta1 "k8s.io/kubelet/config/v1beta1"

	core "porthole.dev/porthole/kubelet"
)

// delayShutdown does nothing: only Linux has a login manager.
func delayShutdown(context.Context, []v1beta1.ShutdownGracePeriodByPodPriority, *core.Kubelet) {}
