package links

import (
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/internal/platform"
)

type netns struct{ kernel.Netns }

func (n netns) create(*Host) error {
	if err := platform.CreateNetns(n.Name); err != nil {
		return err
	}
	return PrepareNetns(platform.NetnsPath(n.Name))
}

func (n netns) delete(*Host) error { return platform.DeleteNetns(n.Name) }

// containerSettings let every program of the namespace send echo requests: a container's may not use raw sockets
// there, if it has users of its own. Adapters do not forward, as new ones on Windows: a namespace has that setting
// from the machine, where Docker and Podman switch it on.
var containerSettings = map[string]string{
	"net/ipv4/ping_group_range":    "0 2147483647",
	"net/ipv4/ip_forward":          "0",
	"net/ipv6/conf/all/forwarding": "0",
}

// PrepareNetns gives the network namespace of a container at path the settings of a new one on Windows.
func PrepareNetns(path string) error {
	return platform.InNetns(path, func() error { return sysctls(containerSettings, true) })
}
