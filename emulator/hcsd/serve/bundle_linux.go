package serve

import (
	"encoding/json"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
)

// The parts of a bundle's config.json (opencontainers/runtime-spec, config.md and config-linux.md).
type (
	runtimeSpec struct {
		Version  string         `json:"ociVersion"`
		Process  runtimeProcess `json:"process"`
		Root     runtimeRoot    `json:"root"`
		Hostname string         `json:"hostname,omitempty"`
		Mounts   []runtimeMount `json:"mounts"`
		Linux    runtimeLinux   `json:"linux"`
	}
	runtimeProcess struct {
		User struct {
			UID int `json:"uid"`
			GID int `json:"gid"`
		} `json:"user"`
		Args            []string            `json:"args"`
		Env             []string            `json:"env"`
		Cwd             string              `json:"cwd"`
		NoNewPrivileges bool                `json:"noNewPrivileges"`
		Capabilities    map[string][]string `json:"capabilities"`
	}
	runtimeRoot struct {
		Path string `json:"path"`
	}
	runtimeMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	runtimeNamespace struct {
		Type string `json:"type"`
		Path string `json:"path,omitempty"`
	}
	runtimeLinux struct {
		CgroupsPath string             `json:"cgroupsPath"`
		Namespaces  []runtimeNamespace `json:"namespaces"`
		Resources   runtimeResources   `json:"resources"`
		MaskedPaths []string           `json:"maskedPaths"`
		Readonly    []string           `json:"readonlyPaths"`
	}
	runtimeResources struct {
		Devices []runtimeDevice `json:"devices,omitempty"`
		Memory  *runtimeMemory  `json:"memory,omitempty"`
		CPU     *runtimeCPU     `json:"cpu,omitempty"`
	}
	runtimeDevice struct {
		Allow  bool   `json:"allow"`
		Access string `json:"access"`
	}
	runtimeMemory struct {
		Limit int64 `json:"limit,omitempty"`
		Swap  int64 `json:"swap,omitempty"`
	}
	runtimeCPU struct {
		Shares uint64 `json:"shares,omitempty"`
		Quota  int64  `json:"quota,omitempty"`
		Period uint64 `json:"period,omitempty"`
	}
)

// capabilities are those that containers have by default; a Windows program cannot use any other.
var capabilities = []struct {
	name   string
	number int
}{{"CAP_CHOWN", unix.CAP_CHOWN}, {"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE}, {"CAP_FSETID", unix.CAP_FSETID}, {"CAP_FOWNER", unix.CAP_FOWNER},
	{"CAP_NET_RAW", unix.CAP_NET_RAW}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETPCAP", unix.CAP_SETPCAP},
	{"CAP_NET_BIND_SERVICE", unix.CAP_NET_BIND_SERVICE}, {"CAP_SYS_CHROOT", unix.CAP_SYS_CHROOT}, {"CAP_KILL", unix.CAP_KILL}}

// specOptions is what the bundle of a container is made of.
type specOptions struct {
	dir       string // of the bundle
	driveC    string // where its C: is mounted on this machine
	netns     string // path; "" for a network of its own without a way out
	cgroup    string
	container *hcsd.Container
	mounts    []runtimeMount
}

// spec describes the container: a wineserver that stays, on the prefix and the C: of the container.
func (o Options) spec(w specOptions) runtimeSpec {
	readonly := func(path, source string) runtimeMount {
		return runtimeMount{path, "bind", source, []string{"rbind", "ro"}}
	}
	writable := func(path, source string) runtimeMount {
		return runtimeMount{path, "bind", source, []string{"rbind", "rw"}}
	}
	s := runtimeSpec{Version: "1.0.2", Root: runtimeRoot{"rootfs"}, Process: o.linuxProcess([]string{o.Tools.Server, "-f", "-p"}, "/")}
	if w.container.GuestOs != nil {
		s.Hostname = w.container.GuestOs.HostName
	}
	s.Mounts = append([]runtimeMount{
		{"/proc", "proc", "proc", nil},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		readonly("/usr", "/usr"), readonly("/lib", "/lib"), readonly("/lib64", "/lib64"),
		readonly("/etc/nsswitch.conf", filepath.Join(w.dir, "nsswitch.conf")),
		readonly("/etc/resolv.conf", filepath.Join(w.dir, "resolv.conf")),
		writable("/tmp", filepath.Join(w.dir, "tmp")),
		writable(guest.Prefix, filepath.Join(w.dir, "prefix")),
		writable(guest.DriveC, w.driveC),
	}, w.mounts...)

	s.Linux = runtimeLinux{
		CgroupsPath: w.cgroup, Resources: o.resources(w.container),
		Namespaces: []runtimeNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}, {Type: "network", Path: w.netns}},
	}
	s.Linux.Resources.Devices = []runtimeDevice{{false, "rwm"}}
	return s
}

// linuxProcess is a process of the container.
func (o Options) linuxProcess(args []string, dir string) runtimeProcess {
	p := runtimeProcess{Args: args, Cwd: dir, NoNewPrivileges: true, Capabilities: map[string][]string{}}
	for _, c := range capabilities {
		for _, set := range []string{"bounding", "effective", "permitted"} {
			p.Capabilities[set] = append(p.Capabilities[set], c.name)
		}
	}
	for _, v := range guest.Environment(o.Tools) {
		p.Env = append(p.Env, v.Name+"="+v.Value)
	}
	return p
}

// The time on processors of Linux: a quota in each period, and the smallest that the kernel takes, in microseconds.
const (
	period   = 100_000
	minQuota = 1_000
	allCPUs  = 10_000 // Processor.Maximum for all processors of the machine
)

// resources turns a container's limits into those of Linux. A weight is one of 10000, of which 100 is Windows' default and 1024 Linux'.
func (o Options) resources(c *hcsd.Container) (r runtimeResources) {
	if c.Memory != nil && c.Memory.SizeInMB > 0 {
		bytes := int64(c.Memory.SizeInMB) << 20
		r.Memory = &runtimeMemory{Limit: bytes, Swap: bytes}
	}
	p := c.Processor
	if p == nil {
		return r
	}
	cpu := runtimeCPU{}
	switch {
	case p.Maximum > 0 && p.Maximum < allCPUs:
		cpu.Period, cpu.Quota = period, max(int64(p.Maximum)*int64(o.CPUs)*period/allCPUs, minQuota)
	case p.Count > 0 && int(p.Count) < o.CPUs:
		cpu.Period, cpu.Quota = period, int64(p.Count)*period
	}
	if p.Weight > 0 {
		cpu.Shares = max(uint64(p.Weight)*1024/100, 2)
	}
	if cpu != (runtimeCPU{}) {
		r.CPU = &cpu
	}
	return r
}

// write makes the bundle's config.json.
func (s runtimeSpec) write(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}
