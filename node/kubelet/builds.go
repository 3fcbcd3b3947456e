package kubelet

import (
	"context"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
	"porthole.dev/porthole/kubelet/image"
)

// imageBuilds returns the check of images before they are pulled; nil on Linux, whose nodes run images of every
// version.
func (p *parts) imageBuilds() *image.Builds {
	if !platform.IsWindows {
		return nil
	}
	// the zero Version: nothing is concluded about images
	version, _ := winbuild.ParseVersion(p.host.KernelVersion)
	b := &image.Builds{
		Node: winbuild.Host{Name: p.host.name, Version: version, Architecture: p.host.Arch},
		Registry: func(ctx context.Context, name string, login registry.Login) (winbuild.Image, error) {
			found, err := registry.Find(ctx, name, registry.Options{HostsDir: p.given.RegistryConfig, Login: login})
			if err != nil {
				return winbuild.Image{}, err
			}
			return found.Platforms(ctx)
		},
		Handlers: func(ctx context.Context) (names []string) {
			health, err := p.runtime.Health(ctx)
			if err != nil {
				return nil
			}
			for _, h := range health.Handlers {
				names = append(names, h.Name)
			}
			return names
		},
	}

	if p.api.client != nil {
		b.Nodes = p.api.client.WindowsHosts
	}
	return b
}
