package serve

import (
	"path/filepath"

	"porthole.dev/porthole/emulator/hcsd/container"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
)

// Options of the daemon.
type Options struct {
	Cgroup   string // of the host, in all hierarchies; those of its containers are below; required
	HostDir  string // the host's folder; required
	Template string // Wine prefix that containers start from; required
	Tools    wine.Tools
	Listen   string // TCP address for vmcompute.dll; required
	Runc     string // the runc program; required
	CPUs     int    // of the machine; required: limits are shares of all
	Memory   uint64 // bytes that the host's programs see; 0: those of the machine
}

func (o Options) host() hostfs.Host { return hostfs.Host{Dir: o.HostDir} }

// cgroup is that of all containers of the host.
func (o Options) cgroup() string { return filepath.Join(o.Cgroup, "hcs") }

func (o Options) runtime() *container.Runtime {
	return container.New(container.Options{Host: o.host(), Cgroup: o.cgroup(), Template: o.Template, Tools: o.Tools,
		Runc: o.Runc, CPUs: o.CPUs})
}

// Socket is where the daemon of the host in hostDir answers its control interface.
func Socket(hostDir string) string { return filepath.Join(hostDir, "hcsd.sock") }
