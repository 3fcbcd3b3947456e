package kubelet

import (
	"context"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/runtime"
)

// imageBuilds returns the check of images before they are pulled; nil on Linux, whose nodes run images of every
// version. api may be nil.
func imageBuilds(given *Options, o *assembly, api *kube.Kubelet, rt *runtime.Runtime) *image.Builds {
	if !platform.IsWindows {
		return nil
	}
	// the zero Version: nothing is concluded about images
	version, _ := winbuild.ParseVersion(o.Node.Host.KernelVersion)
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
		b.Nodes = api.WindowsHosts
	}
	return b
}
