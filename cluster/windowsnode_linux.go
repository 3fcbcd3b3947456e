package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/slow"
)

// ensureWindowsHosts makes the Wine templates of the builds that have none, and mounts an overlay of one for every
// host.
func ensureWindowsHosts(ctx context.Context, l Layout, c Config) error {
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
	if c.Supervisor == SuperviseServices {
		lower = lower[1:] // `porthole join` installs the programs
	}
	m := windowsMaker{
		tools: tools, layout: l, lower: lower, drivers: c.network().drivers,
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
	layout  Layout
	lower   []string // folders between the template and the host's own changes
	drivers []string // names of services
	dlls    string   // folder
}

// ensure makes the template of the host's build unless it is there, mounts the host's overlay of it, and adapts its
// registry.
func (m windowsMaker) ensure(ctx context.Context, n Node) error {
	build, err := wine.LookupBuild(n.Build)
	if err != nil {
		return err
	}
	dir, p := m.layout.Host(n.Name), prefix(m.layout, n)
	template := wine.TemplateDir(m.layout.Dir, n.Build)
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

func prefix(l Layout, n Node) wine.Prefix { return wine.Prefix{Dir: l.NodeFile(n.Name, "prefix")} }

// ensurePrograms puts the programs that an administrator would install on every Windows node into a folder that lies
// below the C: of all of them, and returns the folder. So 20 nodes have them on the disk and in memory once, not 20
// times (1.4 GB). While a node is mounted over it the folder stays as it is: writeWindowsNode gives the nodes what is
// newer.
func ensurePrograms(l Layout) (dir string, err error) {
	dir = l.at("wine", "programs")
	if wine.IsLower(dir) {
		return dir, nil
	}
	return dir, errors.Join(installPrograms(l, filepath.Join(dir, "drive_c")), wine.Own(filepath.Join(dir, "drive_c")))
}

// installPrograms copies our programs to a C: that does not have them.
func installPrograms(l Layout, c string) error {
	return errors.Join(
		installProgram(l.WindowsExe("porthole"), filepath.Join(c, "k", "porthole.exe")),
		installProgram(l.WindowsExe("kube-proxy"), filepath.Join(c, "k", "kube-proxy.exe")),
		installProgram(l.WindowsExe("win-bridge"), filepath.Join(c, "opt", "cni", "bin", "win-bridge.exe")),
		relink(filepath.Join(c, "k", "porthole.exe"), filepath.Join(c, "k", "kubelet.exe")),
	)
}

// installPlugins copies the CNI plugins that the cluster's network needs beside win-bridge to a node's C:.
func installPlugins(l Layout, cfg Config, c string) (err error) {
	for _, name := range cfg.network().plugins {
		err = errors.Join(err, installProgram(l.WindowsExe(name), filepath.Join(c, "opt", "cni", "bin", name+".exe")))
	}
	return err
}

// writeWindowsNode installs what an administrator would install on a Windows host, and what the emulated host needs.
func writeWindowsNode(l Layout, cfg Config, n Node) error {
	c := l.NodeFile(n.Name, "prefix", "drive_c")
	if cfg.Supervisor == SuperviseProcesses {
		for _, dir := range []string{"k", "opt/cni/bin", "etc/cni/net.d", "var/log/pods", "var/lib/kubelet"} {
			if err := prefix(l, n).MkdirAll("drive_c/" + dir); err != nil {
				return err
			}
		}
	}
	errs := []error{
		hostOf(l, cfg, n).WriteRuntimeFiles(pauseImage),
		writeFile(filepath.Join(c, "etc", "containerd", "certs.d", "_default", "hosts.toml"),
			containerdconf.RegistryHosts("http://"+registryAddress()), 0o644),
	}
	if cfg.Supervisor == SuperviseServices {
		errs = append(errs, unpackArchive(l, cfg, n))
	} else {
		errs = append(errs, installPrograms(l, c), installPlugins(l, cfg, c))
	}
	return errors.Join(errs...)
}

// pauseImage is the image of sandboxes on Windows nodes; it has a variant for each build.
const pauseImage = "docker.io/porthole/pause:1"

// openFirewalls has each Windows node with a firewall make the rules for our programs, as an administrator would. It
// runs when the nodes are Ready: the programs make none by themselves, and need none to reach others.
func openFirewalls(ctx context.Context, o UpOptions, p *progress) error {
	if !o.Config.WindowsFirewall {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(time.Minute))
	defer cancel()
	for _, n := range o.Config.Nodes() {
		if !n.Windows {
			continue
		}
		if err := runOnNode(ctx, hostOf(o.Layout, o.Config, n), `C:\k\porthole.exe`,
			append([]string{"firewall", "add"}, o.Config.network().firewall...)...); err != nil {
			return fmt.Errorf("making firewall rules on %s: %w", n.Name, err)
		}
	}
	p.done("firewall rules of the Windows nodes")
	return nil
}

// runOnNode runs a program of a node to its end.
func runOnNode(ctx context.Context, h host.Host, exe string, args ...string) error {
	cmd, err := h.Program(ctx, exe, args...)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	if err := cmd.Run(ctx); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// relink makes to a hard link to from, in place of an earlier file. If to has the size and the time of from, it is
// that link already, also where an overlay shows the two as different files.
func relink(from, to string) error {
	if p, name, ok := wine.InPrefix(to); ok {
		_, old, _ := wine.InPrefix(from)
		return p.Link(old, name)
	}
	src, err := os.Stat(from)
	if err != nil {
		return err
	}
	if dst, err := os.Stat(to); err == nil && dst.Size() == src.Size() && dst.ModTime().Equal(src.ModTime()) {
		return nil
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Link(from, to)
}
