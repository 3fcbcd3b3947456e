package host

import (
	"path/filepath"
	"strconv"

	"porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
)

// Process is one of the Linux programs that an emulated Windows host consists of while it runs. It must be started in the
// host's network namespace and started again if it ends.
type Process struct {
	Name string // wineserver, hnsd or cri
	Path string
	Args []string
	Env  []string // beside what the caller gives every program
	// Listens is the TCP address, in the host's network namespace, at which its clients find it; "" if it has none.
	Listens string
}

// Processes returns what the host consists of. tools are Wine's programs, porthole the path of ours. It is a pure function.
//
//   - wineserver is what the kernel is to Windows programs, for all programs of the host. They hang if it is killed, so what
//     runs under Wine must be started again after it.
//   - hnsd is the Host Networking Service.
//   - cri, only with containers, is the container runtime. It needs a Linux containerd on the socket that containerd.sock in the
//     host's folder containerd is; the caller starts that one.
func (h Host) Processes(tools wine.Tools, porthole string, containers bool) []Process {
	host := []string{"--host-dir", h.Dir, "--build", strconv.Itoa(h.Build)}
	list := []Process{
		{Name: "wineserver", Path: tools.Server, Args: []string{"-f", "-p"}, Env: tools.Env(h.Prefix())},
		{Name: "hnsd", Path: porthole, Args: append([]string{"host-hnsd"}, host...), Listens: wire.HNSAddress},
	}
	if containers {
		list = append(list, Process{Name: "cri", Path: porthole, Args: append([]string{"host-cri"}, host...), Listens: cri.Address})
	}
	return list
}

// Prefix is the host's Wine prefix, with its C:.
func (h Host) Prefix() wine.Prefix { return wine.Prefix{Dir: filepath.Join(h.Dir, "prefix")} }
