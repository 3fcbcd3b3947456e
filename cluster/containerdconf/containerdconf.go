// Package containerdconf writes the configuration of a local node's containerd: everything below one folder, several
// containerds on one machine without touching each other, one registry for every image name.
package containerdconf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Options say where a node's containerd lives.
type Options struct {
	Dir          string // required: gets root, state, containerd.sock, config.toml, certs.d
	Registry     string // URL that every image name is resolved at; empty: no mirror
	SandboxImage string // empty: porthole/pause:linux, which has a Linux variant only
	CNIConfDir   string // required
	CNIBinDir    string // required
	RuncPath     string // empty: runc on PATH
	// InternalLoopback: containerd sets lo up itself, and no loopback plugin is needed.
	InternalLoopback bool
	// SystemdCgroup: systemd makes the containers' cgroups.
	SystemdCgroup bool
	Debug         bool
}

// DefaultSandboxImage is a tag that no Windows variant has, so that pods' images never take its name.
const DefaultSandboxImage = "porthole/pause:linux"

// Paths below Options.Dir.
func (o Options) Root() string     { return filepath.Join(o.Dir, "root") }
func (o Options) State() string    { return filepath.Join(o.Dir, "state") }
func (o Options) Socket() string   { return filepath.Join(o.Dir, "containerd.sock") }
func (o Options) File() string     { return filepath.Join(o.Dir, "config.toml") }
func (o Options) CertsDir() string { return filepath.Join(o.Dir, "certs.d") }

// maxSocket is what fits into a Unix socket address with the ".ttrpc" that containerd adds (108 bytes with a NUL).
const maxSocket = 107 - len(".ttrpc")

// Check tells what would make containerd fail later in a less clear way.
func (o Options) Check() error {
	if o.Dir == "" || o.CNIConfDir == "" || o.CNIBinDir == "" {
		return errors.New("containerd's folder, CNI configuration folder and CNI program folder must be given")
	}
	if n := len(o.Socket()); n > maxSocket {
		return fmt.Errorf("state folder is too deep: the socket path %s has %d characters, at most %d fit", o.Socket(),
			n, maxSocket)
	}
	return nil
}

// ContainerdConfig is the text of config.toml. It is pure: the same options give the same bytes.
func ContainerdConfig(o Options) []byte {
	if o.SandboxImage == "" {
		o.SandboxImage = DefaultSandboxImage
	}
	level := "info"
	if o.Debug {
		level = "debug"
	}

	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("version = 4")
	p("root = %q", o.Root())
	p("state = %q", o.State())
	p("imports = []")
	p("disabled_plugins = [%q, %q, %q, %q, %q]", "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile",
		"io.containerd.snapshotter.v1.erofs", "io.containerd.internal.v1.opt",
		"io.containerd.tracing.processor.v1.otlp")
	p("\n[debug]\n  level = %q", level)
	p("\n[plugins.'io.containerd.server.v1.grpc']\n  address = %q", o.Socket())
	p("\n[plugins.'io.containerd.server.v1.ttrpc']\n  address = %q", o.Socket()+".ttrpc")
	p("\n[plugins.'io.containerd.cri.v1.images']\n  snapshotter = %q", "overlayfs")
	p("\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = %q", o.SandboxImage)
	p("\n[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = %q", o.CertsDir())
	p("\n[plugins.'io.containerd.transfer.v1.local']\n  config_path = %q", o.CertsDir())
	p("\n[plugins.'io.containerd.cri.v1.runtime']")
	p("  # Without CAP_SYS_RESOURCE runc cannot lower a process's score; with it nothing is lost.")
	p("  restrict_oom_score_adj = true")
	p("  disable_apparmor = true")
	p("  # Pods' network namespaces are kept below the state folder, where whoever removes the node finds them.")
	p("  netns_mounts_under_state_dir = true")
	p("\n[plugins.'io.containerd.cri.v1.runtime'.cni]")
	p("  bin_dirs = [%q]\n  conf_dir = %q\n  use_internal_loopback = %v", o.CNIBinDir, o.CNIConfDir, o.InternalLoopback)
	p("\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\n  default_runtime_name = %q", "runc")
	p("\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n  runtime_type = %q",
		"io.containerd.runc.v2")
	p("\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]")
	p("  BinaryName = %q\n  SystemdCgroup = %v", o.RuncPath, o.SystemdCgroup)
	p("\n[plugins.'io.containerd.grpc.v1.cri']\n  stream_server_address = %q\n  stream_server_port = %q", "127.0.0.1",
		"0")
	return b.Bytes()
}

// RegistryHosts is the text of the hosts.toml that makes one registry answer for every name.
func RegistryHosts(url string) []byte {
	return fmt.Appendf(nil, "server = %q\n\n[host.%q]\n  capabilities = [\"pull\", \"resolve\", \"push\"]\n", url, url)
}

// Write makes the folders and files that containerd with these options starts from. Again: changes nothing.
func Write(o Options) error {
	if err := o.Check(); err != nil {
		return fmt.Errorf("configuring containerd: %w", err)
	}
	for _, dir := range []string{o.Dir, o.Root(), o.State(), filepath.Join(o.CertsDir(), "_default"), o.CNIConfDir,
		o.CNIBinDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("configuring containerd: %w", err)
		}
	}
	if err := os.WriteFile(o.File(), ContainerdConfig(o), 0o644); err != nil {
		return fmt.Errorf("configuring containerd: %w", err)
	}
	if o.Registry == "" {
		return nil
	}
	hosts := filepath.Join(o.CertsDir(), "_default", "hosts.toml")
	if err := os.WriteFile(hosts, RegistryHosts(o.Registry), 0o644); err != nil {
		return fmt.Errorf("configuring containerd's registry: %w", err)
	}
	return nil
}
