package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/runtime"
)

// imageBuilds returns the check of images before they are pulled; nil on Linux, whose nodes run images of every version. api may be nil.
func imageBuilds(given *Options, o *core.Options, api *kube.Kubelet, rt *runtime.Runtime) *image.Builds {
	if !platform.IsWindows {
		return nil
	}
	version, _ := winbuild.ParseVersion(o.Node.Host.KernelVersion) // of a host that does not say it, nothing is concluded
	b := &image.Builds{
		Node: winbuild.Host{Name: o.Node.Name, Version: version, Architecture: o.Node.Host.Arch},
		Registry: func(ctx context.Context, name string, login registry.Login) (winbuild.Image, error) {
			found, err := registry.Find(ctx, name, registry.Options{HostsDir: given.RegistryConfig, Login: login})
			if err != nil {
				return winbuild.Image{}, err
			}
			return found.Platforms(ctx)
		},
		Handlers: func(ctx context.Context) (names []string) {
			health, err := rt.Health(ctx)
			if err != nil {
				return nil
			}
			for _, h := range health.Handlers {
				names = append(names, h.Name)
			}
			return names
		},
	}

	if api != nil {
		b.Nodes = func(ctx context.Context) (hosts []winbuild.Host, err error) {
			nodes, err := api.WindowsNodes(ctx)
			for i := range nodes {
				hosts = append(hosts, windowsHost(&nodes[i]))
			}
			return hosts, err
		}
	}
	return b
}

// windowsHost returns what a node says of its Windows. A node without that has no build, and nothing is concluded about it.
func windowsHost(n *v1.Node) winbuild.Host {
	version, _ := winbuild.ParseVersion(n.Status.NodeInfo.KernelVersion)
	return winbuild.Host{Name: n.Name, Version: version, Architecture: n.Status.NodeInfo.Architecture}
}
