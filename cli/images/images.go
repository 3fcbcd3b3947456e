// Package images is the command group for images of Windows: on which nodes they run, and how to bring them to nodes
// without a registry.
package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
	"porthole.dev/porthole/kubelet/image"
)

// Command is `porthole images`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "images",
		Short: "Show on which Windows nodes images run, and bring images to nodes without a registry",
		Example: `  porthole images check mcr.microsoft.com/windows/nanoserver:ltsc2022
  porthole images export mcr.microsoft.com/windows/nanoserver:ltsc2022 --build 20348 --output nanoserver.tar
  porthole images import nanoserver.tar --node win01`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(checkCommand(), exportCommand(), importCommand())
	return c
}

// localCluster is how these commands reach a local cluster.
type localCluster struct {
	kubeconfig string
	mirror     string // URL of its registry, as this machine reaches it
}

// sources are the flags that say which registry is asked, and with which logins.
type sources struct {
	hostsDir, mirror, configDir string
}

func (s *sources) addTo(fs *pflag.FlagSet) {
	fs.StringVar(&s.hostsDir, "registry-config", "",
		"folder of hosts.toml files with the addresses of registries and mirrors, such as containerd's config_path")
	fs.StringVar(&s.mirror, "mirror", "",
		"address of a registry that has all images, for example http://127.0.0.1:5000; --registry-config has no effect then")
	fs.StringVar(&s.configDir, "login-config", defaultLogins(),
		"folder of the config.json with logins that \"docker login\" writes")
}

func defaultLogins() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// lookupTimeout bounds the look-up of one image, without its layers.
const lookupTimeout = 30 * time.Second

// find looks up an image, with one login after the other until one is accepted.
func (s *sources) find(ctx context.Context, name string) (found *registry.Image, err error) {
	full, err := image.Normalize(name)
	if err != nil {
		return nil, err
	}
	logins := image.Logins(full, []string{s.configDir})
	if len(logins) == 0 {
		logins = []registry.Login{{}}
	}
	for _, login := range logins {
		found, err = registry.Find(ctx, full, registry.Options{HostsDir: s.hostsDir, Mirror: s.mirror, Login: login})
		if err == nil {
			return found, nil
		}
	}
	return nil, err
}

// useLocal makes the registry of a local cluster the mirror, unless flags name a registry.
func (s *sources) useLocal(l localCluster) {
	if s.mirror == "" && s.hostsDir == "" {
		s.mirror = l.mirror
	}
}

// hostsOfCluster lists the Windows nodes of a cluster.
func hostsOfCluster(ctx context.Context, kubeconfig string) ([]winbuild.Host, error) {
	client, _, err := kube.Load(kubeconfig, "porthole-images", 20, 40)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	hosts, err := kube.WindowsHosts(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of the cluster of %s: %w", kubeconfig, err)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("the cluster of %s has no Windows nodes; --build checks builds instead", kubeconfig)
	}
	return hosts, nil
}

// hostsOfBuilds returns one host for each build. builds are values of --build.
func hostsOfBuilds(builds []string, arch string) (hosts []winbuild.Host, err error) {
	for _, text := range builds {
		b, err := winbuild.ParseBuild(text)
		if err != nil {
			return nil, fmt.Errorf("--build: %w", err)
		}
		hosts = append(hosts, winbuild.Host{Version: winbuild.Version{Build: b, Revision: -1}, Architecture: arch})
	}
	return hosts, nil
}

// errNoHosts is the error if no flag, no local cluster and no Windows host says which hosts to check.
var errNoHosts = errors.New(
	"no Windows hosts are named: give --build, for example --build 20348,26100, or --kubeconfig")

// thisHost returns the machine itself if it is a Windows one.
func thisHost() (winbuild.Host, error) {
	if !platform.IsWindows {
		return winbuild.Host{}, errNoHosts
	}
	h, err := platform.ReadHost(`C:\`)
	if err != nil {
		return winbuild.Host{}, err
	}
	version, ok := winbuild.ParseVersion(h.KernelVersion)
	if !ok {
		return winbuild.Host{}, fmt.Errorf("this host says that its version is %q", h.KernelVersion)
	}
	return winbuild.Host{Name: h.Hostname, Version: version, Architecture: h.Arch}, nil
}
