package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"porthole.dev/porthole/emulator/cri/cnishim"
	"porthole.dev/porthole/emulator/cri/containerdconf"
	"porthole.dev/porthole/emulator/wine"
)

// ensureWindowsHosts makes the Wine template of the build if there is none, and mounts an overlay of it for every host.
func ensureWindowsHosts(ctx context.Context, l Layout, c Config) error {
	if c.WindowsNodes == 0 {
		return nil
	}
	tools, err := wine.Find()
	if err != nil {
		return err
	}

	number, err := strconv.Atoi(c.WindowsBuild)
	if err != nil {
		return err
	}

	build, err := wine.LookupBuild(number)
	if err != nil {
		return err
	}

	template := wine.TemplateDir(l.Dir, number)
	err = tools.EnsureTemplate(ctx, wine.TemplateOptions{Dir: template, Build: build, DLLDir: filepath.Join(l.Bin, "windows", "dll")})
	if err != nil {
		return err
	}

	for _, n := range c.Nodes() {
		if !n.Windows {
			continue
		}
		if err := wine.PrefixMount(template, l.Host(n.Name)).Ensure(); err != nil {
			return err
		}
	}
	return nil
}

// writeWindowsNode installs what an administrator would install on a Windows host, and what the emulated host needs.
func writeWindowsNode(l Layout, n Node) error {
	c := l.NodeFile(n.Name, "prefix", "drive_c")
	for _, dir := range []string{"k", "opt/cni/bin", "etc/cni/net.d", "var/log/pods", "var/lib/kubelet"} {
		if err := os.MkdirAll(filepath.Join(c, dir), 0o755); err != nil {
			return err
		}
	}
	errs := []error{
		installProgram(l.WindowsExe("porthole"), filepath.Join(c, "k", "porthole.exe")),
		installProgram(l.WindowsExe("kube-proxy"), filepath.Join(c, "k", "kube-proxy.exe")),
		installProgram(l.WindowsExe("win-bridge"), filepath.Join(c, "opt", "cni", "bin", "win-bridge.exe")),
		cnishim.Install(l.Host(n.Name), l.Porthole()),
		writeContainerd(l, n),
		writeFile(filepath.Join(c, "etc", "containerd", "certs.d", "_default", "hosts.toml"), containerdconf.RegistryHosts("http://"+registryAddress()), 0o644),
		relink(filepath.Join(c, "k", "porthole.exe"), filepath.Join(c, "k", "kubelet.exe")),
	}
	return errors.Join(errs...)
}

// relink makes to a hard link to from, in place of an earlier file.
func relink(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Link(from, to)
}
