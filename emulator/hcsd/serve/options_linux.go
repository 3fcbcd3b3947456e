package serve

import (
	"path/filepath"

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

// driveC is C: of the host.
func (o Options) driveC() string { return filepath.Join(o.HostDir, "prefix", "drive_c") }

// path is below the daemon's own folder.
func (o Options) path(parts ...string) string {
	return filepath.Join(append([]string{o.HostDir, "hcs"}, parts...)...)
}

func (o Options) layerDir(id string) string { return o.path("layers", id) }

func (o Options) systemDir(key string) string { return o.path("systems", key) }

// cgroup is that of all containers of the host.
func (o Options) cgroup() string { return filepath.Join(o.Cgroup, "hcs") }

// Socket is where the daemon of the host in hostDir answers its control interface.
func Socket(hostDir string) string { return filepath.Join(hostDir, "hcsd.sock") }
