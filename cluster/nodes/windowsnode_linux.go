package nodes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/wine"
)

// EnsureWindowsHosts makes the Wine templates of the builds that have none, and mounts an overlay of one for every
// host.
func EnsureWindowsHosts(ctx context.Context, l layout.Layout, c config.Cluster) error {
	if c.WindowsNodes == 0 {
		return nil
	}
	tools, err := wine.Find()
	if err != nil {
		return err
	}

	programs, err := ensurePrograms(l)
	if err != nil {
		return err
	}
	runtime, err := host.Store{Dir: l.Dir, Bin: l.Bin}.RuntimeLayer()
	if err != nil {
		return err
	}
	lower := []string{programs, runtime}
	if c.Supervisor == config.SuperviseServices {
		lower = lower[1:] // `porthole join` installs the programs
	}
	m := windowsMaker{
		tools: tools, paths: l, lower: lower, drivers: network.Of(c).Drivers,
		dlls: filepath.Join(l.Bin, "windows", "dll"),
	}
	for _, n := range c.Nodes() {
		if n.Windows {
			if err := m.ensure(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// windowsMaker has what all Windows hosts of a cluster are made from.
type windowsMaker struct {
	tools   wine.Tools
	paths   layout.Layout
	lower   []string // folders between the template and the host's own changes
	drivers []string // names of services
	dlls    string   // folder
}

// ensure makes the template of the host's build unless it is there, mounts the host's overlay of it, and adapts its
// registry.
func (m windowsMaker) ensure(ctx context.Context, n config.Node) error {
	build, err := wine.LookupBuild(n.Build)
	if err != nil {
		return err
	}
	dir := m.paths.Host(n.Name)
	p := winePrefix(m.paths, n)
	template := wine.TemplateDir(m.paths.Dir, n.Build)
	options := wine.TemplateOptions{Dir: template, Build: build, DLLDir: m.dlls, Owner: wine.Owner}
	if err := m.tools.EnsureTemplate(ctx, options); err != nil {
		return err
	}
	if err := confine.Share(dir); err != nil {
		return err
	}
	if err := wine.PrefixMount(template, dir, m.lower...).Ensure(); err != nil {
		return err
	}

	if why := p.PipeProblem(); why != "" {
		return fmt.Errorf("%s listens on a named pipe, and %s", host.ContainerdExe, why)
	}
	if err := p.SetMachine(n.Name); err != nil {
		return err
	}
	for _, driver := range m.drivers {
		if err := p.InstallDriver(driver); err != nil {
			return err
		}
	}
	// A template that other hosts have mounted stays as it is, and may have older DLLs.
	_, err = wine.InstallDLLs(p, m.dlls)
	return err
}

func winePrefix(l layout.Layout, n config.Node) wine.Prefix {
	return wine.Prefix{Dir: l.NodeFile(n.Name, "prefix")}
}

// ensurePrograms puts the programs that an administrator would install on every Windows node into a folder that lies
// below the C: of all of them, and returns the folder. So 20 nodes have them on the disk and in memory once, not 20
// times (1.4 GB). While a node is mounted over it the folder stays as it is: writeWindowsNode gives the nodes what is
// newer.
func ensurePrograms(l layout.Layout) (dir string, err error) {
	dir = l.WindowsPrograms()
	if wine.IsLower(dir) {
		return dir, nil
	}
	return dir, errors.Join(installPrograms(l, filepath.Join(dir, "drive_c")), wine.Own(filepath.Join(dir, "drive_c")))
}

// installPrograms copies our programs to a C: that does not have them.
func installPrograms(l layout.Layout, c string) error {
	return errors.Join(
		install.Program(l.WindowsExe("porthole"), filepath.Join(c, "k", "porthole.exe")),
		install.Program(l.WindowsExe("kube-proxy"), filepath.Join(c, "k", "kube-proxy.exe")),
		install.Program(l.WindowsExe("win-bridge"), filepath.Join(c, "opt", "cni", "bin", "win-bridge.exe")),
		install.Link(filepath.Join(c, "k", "porthole.exe"), filepath.Join(c, "k", "kubelet.exe")),
	)
}

// installPlugins copies the CNI plugins that the cluster's network needs beside win-bridge to a node's C:.
func installPlugins(l layout.Layout, cfg config.Cluster, c string) (err error) {
	for _, name := range network.Of(cfg).Plugins {
		err = errors.Join(err, install.Program(l.WindowsExe(name), filepath.Join(c, "opt", "cni", "bin", name+".exe")))
	}
	return err
}

// writeWindowsNode installs what an administrator would install on a Windows host, and what the emulated host needs.
func writeWindowsNode(l layout.Layout, cfg config.Cluster, n config.Node) error {
	c := l.NodeFile(n.Name, "prefix", "drive_c")
	if cfg.Supervisor == config.SuperviseProcesses {
		for _, dir := range []string{"k", "opt/cni/bin", "etc/cni/net.d", "var/log/pods", "var/lib/kubelet"} {
			if err := winePrefix(l, n).MkdirAll("drive_c/" + dir); err != nil {
				return err
			}
		}
	}
	errs := []error{
		cfg.Host(l, n).WriteRuntimeFiles(pauseImage),
		install.File(filepath.Join(c, "etc", "containerd", "certs.d", "_default", "hosts.toml"),
			containerdconf.RegistryHosts("http://"+config.Registry()), 0o644),
	}
	if cfg.Supervisor == config.SuperviseServices {
		errs = append(errs, unpackArchive(l, cfg, n))
	} else {
		errs = append(errs, installPrograms(l, c), installPlugins(l, cfg, c))
	}
	return errors.Join(errs...)
}

// pauseImage is the image of sandboxes on Windows nodes; it has a variant for each build.
const pauseImage = "docker.io/porthole/pause:1"
