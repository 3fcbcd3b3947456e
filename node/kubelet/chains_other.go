//go:build !linux

package kubelet

import "context"

// keepChains does nothing: only Linux has iptables.
func keepChains(context.Context) {}
