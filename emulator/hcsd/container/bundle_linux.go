package container

import (
	"encoding/json"
	"os"
	"path/filepath"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
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
		Args            []string `json:"args"`
		Env             []string `json:"env"`
		Cwd             string   `json:"cwd"`
		NoNewPrivileges bool     `json:"noNewPrivileges"`
		Capabilities    struct{} `json:"capabilities"` // none
	}
	runtimeRoot struct {
		Path     string `json:"path"`
		Readonly bool   `json:"readonly"`
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
	runtimeIDs struct {
		Inside  uint32 `json:"containerID"`
		Outside uint32 `json:"hostID"`
		Size    uint32 `json:"size"`
	}
	runtimeLinux struct {
		CgroupsPath string                 `json:"cgroupsPath"`
		Namespaces  []runtimeNamespace     `json:"namespaces"`
		Users       []runtimeIDs           `json:"uidMappings"`
		Groups      []runtimeIDs           `json:"gidMappings"`
		Resources   runtimeResources       `json:"resources"`
		Seccomp     confine.SeccompProfile `json:"seccomp"`
		Sysctl      map[string]string      `json:"sysctl,omitempty"`
		MaskedPaths []string               `json:"maskedPaths"`
		Readonly    []string               `json:"readonlyPaths"`
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

// spec describes the container: a wineserver that stays, on the prefix and the C: of the container. It runs as root of
// a user namespace of its own, which is a user without rights on this machine, and has no capability there either.
func (w *start) spec() runtimeSpec {
	mount := func(path, source string, options ...string) runtimeMount {
		return runtimeMount{path, "bind", source, append([]string{"rbind", "nosuid", "nodev"}, options...)}
	}
	s := runtimeSpec{Version: "1.0.2", Root: runtimeRoot{w.r.root().path(), true},
		Process: w.r.linuxProcess([]string{w.r.o.Tools.Server, "-f", "-p"}, "/")}
	if w.Doc.GuestOs != nil {
		s.Hostname = w.Doc.GuestOs.HostName
	}
	s.Mounts = []runtimeMount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "noexec", "strictatime", "mode=755", "size=65536k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
	}
	for _, path := range w.r.root().shown() {
		s.Mounts = append(s.Mounts, mount(path, path, "ro"))
	}
	s.Mounts = append(append(s.Mounts,
		mount("/etc/nsswitch.conf", filepath.Join(w.b.dir, "nsswitch.conf"), "ro"),
		mount("/etc/resolv.conf", filepath.Join(w.b.dir, "resolv.conf"), "ro"),
		mount("/tmp", filepath.Join(w.b.dir, "tmp"), "rw"),
		mount(guest.Prefix, filepath.Join(w.b.dir, "prefix"), "rw"),
		mount(guest.Run, w.b.guest(), "rw"),
		mount(guest.Pipes, w.b.pipes(), "ro"),
		mount(guest.DriveC, w.DriveC, "rw"),
	), w.mounts...)

	ids := []runtimeIDs{{Inside: 0, Outside: wine.Owner, Size: 1}}
	s.Linux = runtimeLinux{
		CgroupsPath: filepath.Join(w.r.o.Cgroup, w.Key),
		Resources:   w.r.resources(&w.Doc), Users: ids, Groups: ids, Seccomp: confine.Profile(),
		Namespaces: []runtimeNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}, {Type: "user"},
			{Type: "network", Path: w.Network.Path}},
		MaskedPaths: confine.MaskedPaths, Readonly: confine.ReadonlyPaths,
	}
	s.Linux.Resources.Devices = []runtimeDevice{{false, "rwm"}}
	if w.Network.Path == "" { // others are opened by confine.OpenNetwork
		s.Linux.Sysctl = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0",
			"net.ipv4.ping_group_range": "0 0"}
	}
	return s
}

// linuxProcess is a process of the container.
func (r *Runtime) linuxProcess(args []string, dir string) runtimeProcess {
	p := runtimeProcess{Args: args, Cwd: dir, NoNewPrivileges: true}
	for _, v := range guest.Environment(r.o.Tools) {
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

// resources turns a container's limits into those of Linux. A weight is one of 10000, of which 100 is Windows' default
// and 1024 Linux'.
func (r *Runtime) resources(c *hcsd.Container) (out runtimeResources) {
	if c.Memory != nil && c.Memory.SizeInMB > 0 {
		bytes := int64(c.Memory.SizeInMB) << 20
		out.Memory = &runtimeMemory{Limit: bytes, Swap: bytes}
	}
	p := c.Processor
	if p == nil {
		return out
	}

	cpu := runtimeCPU{}
	// A maximum goes before a number of processors: either becomes the quota.
	switch {
	case p.Maximum > 0 && p.Maximum < allCPUs:
		cpu.Period = period
		cpu.Quota = max(int64(p.Maximum)*int64(r.o.CPUs)*period/allCPUs, minQuota)
	case p.Count > 0 && int(p.Count) < r.o.CPUs:
		cpu.Period = period
		cpu.Quota = int64(p.Count) * period
	}
	if p.Weight > 0 {
		cpu.Shares = max(uint64(p.Weight)*1024/100, 2)
	}
	if cpu != (runtimeCPU{}) {
		out.CPU = &cpu
	}
	return out
}

// write makes the bundle's config.json.
func (s runtimeSpec) write(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}
