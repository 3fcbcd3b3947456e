package cri

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"porthole.dev/porthole/emulator/wine"
)

// Options say what host a Server works for.
type Options struct {
	Host       string // name of the host; its pods' cgroups are below /porthole/<Host>; required
	HostDir    string // the host's folder; required
	Build      int    // Windows build, for example 20348; required
	Arch       string // of the images that are chosen; empty: amd64
	Template   string // Wine prefix that containers start from; required
	Wine       string // the wine64 program; required
	WineServer string // the wineserver program; required
	Listen     string // TCP address for CRI; empty: Address
	Containerd string // containerd's socket; empty: <HostDir>/containerd/containerd.sock
	CertsDir   string // registry configuration; empty: <HostDir>/containerd/certs.d
	// DialHNS connects to the host's HNS. nil connects to its address; the caller must be in the host's network namespace then.
	DialHNS func(context.Context) (net.Conn, error)
	// CNIStatus asks the plugins of the host's CNI configuration whether they can attach pods, as containerd on Windows does at each Status.
	// It is called when there is a configuration. nil asks nobody.
	CNIStatus func(context.Context) error
	CPUs      int // of the machine; required: Windows gives CPU limits as a share of all
}

// namespace is where containerd's CRI plugin keeps what it makes.
const namespace = "k8s.io"

// keyAnnotation ties a container to its folder.
const keyAnnotation = "porthole.dev/key"

// Address is where the CRI of a host listens, on the loopback of the host.
const Address = "127.0.0.1:10091"

// Pipe is where containerd listens on Windows, and where Windows programs of a host reach its CRI (package host).
const Pipe = `\\.\pipe\containerd-containerd`

const imageWait = 10 * time.Second

// withDefaults returns the options with the defaults in place of empty texts.
func (o Options) withDefaults() Options {
	if o.Arch == "" {
		o.Arch = "amd64"
	}
	if o.Listen == "" {
		o.Listen = Address
	}
	if o.Containerd == "" {
		o.Containerd = filepath.Join(o.HostDir, "containerd", "containerd.sock")
	}
	if o.CertsDir == "" {
		o.CertsDir = filepath.Join(o.HostDir, "containerd", "certs.d")
	}
	return o
}

// tools are the programs of Wine.
func (o Options) tools() wine.Tools { return wine.Tools{Loader: o.Wine, Server: o.WineServer} }

// driveC is C: of the host.
func (o Options) driveC() string { return filepath.Join(o.HostDir, "prefix", "drive_c") }

func (o Options) containersDir() string { return filepath.Join(o.HostDir, "cri", "containers") }

// cgroupParent is the cgroup of a pod; several hosts on one machine stay apart.
func (o Options) cgroupParent(podUID string) string {
	return filepath.Join("/porthole", o.Host, "pod"+podUID)
}
