package config

import (
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/host"
)

// Host describes a node as the emulator knows it.
func (c Cluster) Host(l layout.Layout, n Node) host.Host {
	h := host.Host{Name: n.Name, OS: n.OS(), Build: n.Build, Address: n.Address, Netns: c.Lab().Netns(n.Name),
		Cluster: c.Name, Dir: l.Host(n.Name),
		Firewall: n.Windows && c.WindowsFirewall, NICFlap: c.WindowsNICFlap, Cards: c.Cards(n)}
	if n.Windows {
		h.Memory, _ = host.ParseMemory(c.WindowsMemory) // Validate reports an error
		h.Runtime = host.ContainerdExe
		h.ServiceManager = c.Supervisor == SuperviseServices
	}
	return h
}
