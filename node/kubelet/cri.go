package kubelet

import (
	"context"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/runtime"
)

// connectRuntime connects to the runtime and to the image service, which is the runtime unless the configuration names
// another one. It does not wait for an answer.
func (p *parts) connectRuntime(ctx context.Context) (err error) {
	cfg, calls := p.cfg, meter.Calls{Meter: p.meter}
	warnOfTCP(ctx, cfg.ContainerRuntimeEndpoint)
	if p.runtime.conn, err = runtime.Dial(cfg.ContainerRuntimeEndpoint, calls); err != nil {
		return err
	}
	p.runtime.images = p.runtime.conn
	if cfg.ImageServiceEndpoint != "" && cfg.ImageServiceEndpoint != cfg.ContainerRuntimeEndpoint {
		if p.runtime.images, err = runtime.Dial(cfg.ImageServiceEndpoint, calls); err != nil {
			p.runtime.conn.Close()
			return err
		}
	}
	p.runtime.Runtime = runtime.New(p.runtime.conn, runtimeOptions(p.cfg, &p.host, sandboxProfile(ctx, p.host.root)))
	return nil
}

// Images may have a connection of their own.
func (p *parts) closeRuntime(context.Context) {
	if p.runtime.images != p.runtime.conn {
		p.runtime.images.Close()
	}
	p.runtime.conn.Close()
}

// runtimeOptions says how containers are made on this machine.
func runtimeOptions(cfg *v1beta1.KubeletConfiguration, h *host, profile string) runtime.Options {
	return runtime.Options{PodLogsDir: h.logs, RootDir: h.root, Windows: platform.IsWindows,
		CPUs: h.CPUs, MemoryBytes: h.MemoryBytes,
		SeccompRoot: filepath.Join(h.root, "seccomp"), SeccompDefault: *cfg.SeccompDefault,
		SandboxProfile: profile,
		CFSQuota:       *cfg.CPUCFSQuota, CFSPeriod: cfg.CPUCFSQuotaPeriod.Duration,
		RequestTimeout: cfg.RuntimeRequestTimeout.Duration,
		Cgroups: runtime.Cgroups{Version: cgroup.Version(),
			SingleProcessOOMKill: cfg.SingleProcessOOMKill != nil && *cfg.SingleProcessOOMKill,
			LimitsSwap:           cgroup.LimitsSwap(), SwapBehavior: cfg.MemorySwap.SwapBehavior,
			SwapBytes: h.SwapBytes}}
}

// sandboxProfile writes the seccomp profile of sandboxes and returns its path; "" if it cannot: they have the
// runtime's then.
func sandboxProfile(ctx context.Context, root string) string {
	path, err := runtime.WriteSandboxProfile(filepath.Join(root, "seccomp"))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Sandboxes have the runtime's own seccomp profile")
	}
	return path
}

// warnOfTCP logs that a Windows node's runtime is reached over TCP, which every program of the node can use.
func warnOfTCP(ctx context.Context, endpoint string) {
	if platform.IsWindows && strings.HasPrefix(endpoint, "tcp:") {
		klog.FromContext(ctx).
			Info(
				"The runtime is reached over TCP, which every program of the node can use; containerd listens on a named pipe",
				"endpoint", endpoint, "default", "npipe:////./pipe/containerd-containerd")
	}
}
