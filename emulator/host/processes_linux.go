package host

import (
	"path/filepath"
	"strconv"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
)

// Process is one of the programs that an emulated Windows host consists of while it runs. It must be started in the
// host's network namespace and started again if it ends. One that Wine runs must be started again also if the
// wineserver ends.
type Process struct {
	Name string // wineserver, hnsd, hcsd, containerd or scm
	Path string
	Args []string
	Env  []string // beside what the caller gives every program
	// Listens is the TCP address, in the host's network namespace, at which its clients find it; "" if it has none.
	Listens string
	// After is the name of the process that must listen before this one starts; "" for none.
	After string
	// Before is a program with its arguments that must succeed before each start; nil for none.
	Before []string
	// Box: it is started in the box of the host (emulator/confine). MakesBox: it is the first process of the box, and
	// is made with confine.CloneFlags.
	Box, MakesBox bool
	// Follows names the process with which this one is started again; "" if there is none.
	Follows string
}

// Processes returns what the host consists of. tools are Wine's programs, porthole the path of ours. It is a pure
// function.
//
//   - wineserver is what the kernel is to Windows programs, for all programs of the host. They hang if it is killed,
//     so what runs under Wine must be started again after it. Whatever an earlier one left is ended before it starts:
//     its end is a reboot.
//   - hnsd is the Host Networking Service.
//   - scm, only of a managed host, is the service manager. The programs of other hosts are started by the supervisor
//     of their cluster.
//   - hcsd, on a host with containerd.exe, is the Host Compute Service. containerd is containerd.exe itself; on a
//     managed host it is a Windows service (RegisterRuntime).
func (h Host) Processes(tools wine.Tools, porthole string) []Process {
	host := []string{"--host-dir", h.Dir, "--build", strconv.Itoa(h.Build)}
	hnsd := append([]string{"host-hnsd"}, host...)
	if h.Firewall {
		hnsd = append(hnsd, "--firewall")
	}
	if h.HNSProfile != "" {
		hnsd = append(hnsd, "--profile", h.HNSProfile)
	}
	if h.NICFlap > 0 {
		hnsd = append(hnsd, "--nic-flap", h.NICFlap.String())
	}
	if h.DNS != nil {
		hnsd = append(hnsd, "--dns", h.DNS.String())
	}

	list := []Process{
		{Name: "wineserver", Path: porthole, Args: []string{"host-box", "--host-dir", h.Dir}, MakesBox: true,
			Before: []string{porthole, "host-clear", "--host-dir", h.Dir}},
		{Name: "hnsd", Path: porthole, Args: hnsd, Listens: wire.HNSAddress},
	}
	if h.Runtime == ContainerdExe {
		hcsd := append([]string{"host-hcsd", "--cgroup", h.Lab().Cgroup(h.Name)}, host...)
		if h.Memory > 0 {
			hcsd = append(hcsd, "--memory", strconv.FormatUint(h.Memory, 10))
		}
		list = append(list, Process{Name: "hcsd", Path: porthole, Args: hcsd, Listens: wire.HCSAddress})
	}
	if h.Runtime == ContainerdExe && !h.Managed() {
		argv := tools.Argv(runtimeFolder + `\containerd.exe`)
		list = append(list,
			Process{Name: "containerd", Path: argv[0], Args: argv[1:], Env: tools.Env(h.Prefix()), After: "hcsd",
				Follows: "wineserver", Box: true})
	}
	if h.Managed() {
		scm := Process{Name: "scm", Path: porthole, Args: []string{"host-scm", "--host-dir", h.Dir},
			Follows: "wineserver"}
		if h.Runtime == ContainerdExe {
			scm.After = "hcsd" // the service containerd needs it
		}
		list = append(list, scm)
	}
	return list
}

// Prefix is the host's Wine prefix, with its C:.
func (h Host) Prefix() wine.Prefix { return wine.Prefix{Dir: filepath.Join(h.Dir, "prefix")} }
