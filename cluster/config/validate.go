package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/winbuild"
	"porthole.dev/porthole/node/routes"
)

// Validate returns an error that names the flag with a wrong value and the values that it may have.
func (c Cluster) Validate() error {
	if c.LinuxNodes < 1 || c.LinuxNodes > maxLinuxNodes {
		return fmt.Errorf("--linux-nodes %d: must be 1 to %d (the control plane and CoreDNS run on lin01)",
			c.LinuxNodes, maxLinuxNodes)
	}
	if c.WindowsNodes < 0 || c.WindowsNodes > maxWindowsNodes {
		return fmt.Errorf("--windows-nodes %d: must be 0 to %d", c.WindowsNodes, maxWindowsNodes)
	}

	if _, err := netip.ParseAddr(c.listen()); err != nil {
		return fmt.Errorf("--listen %s: must be an address of this machine, or 0.0.0.0", c.Listen)
	}
	if c.LinuxKubelet != "" && c.LinuxKubelet != KubeletOurs && c.LinuxKubelet != KubeletUpstream {
		return fmt.Errorf("--linux-kubelet %s: %s or %s", c.LinuxKubelet, KubeletOurs, KubeletUpstream)
	}
	if _, err := c.builds(); err != nil {
		return fmt.Errorf("--windows-build %s: %w", c.WindowsBuild, err)
	}
	if _, err := host.ParseMemory(c.WindowsMemory); err != nil {
		return fmt.Errorf("--windows-memory %s: %w", c.WindowsMemory, err)
	}
	if err := c.checkSupervisor(); err != nil {
		return err
	}
	if _, err := c.Ranges(); err != nil {
		return err
	}
	if !slices.Contains(routes.Modes(), c.Network) {
		if instead := contract.Instead(c.Network); instead != "" {
			return fmt.Errorf("--network %s: %s; known: %s", c.Network, instead, strings.Join(routes.Modes(), ", "))
		}
		return fmt.Errorf("--network %s is not known; known: %s", c.Network, strings.Join(routes.Modes(), ", "))
	}
	return errors.Join(c.checkFamilies(), c.checkCards())
}

// checkSupervisor returns an error if Windows nodes are to be set up by `porthole.exe join`, and it does not do what
// else is asked for.
func (c Cluster) checkSupervisor() error {
	if c.Supervisor == SuperviseProcesses {
		return nil
	}
	if c.Supervisor != SuperviseServices {
		return fmt.Errorf("--supervisor %s: %s or %s", c.Supervisor, SuperviseProcesses, SuperviseServices)
	}
	for flag, given := range map[string]bool{
		"--windows-kubelet-only": c.WindowsKubeletOnly,
		"--windows-firewall":     c.WindowsFirewall,
		"--windows-adapter":      c.WindowsAdapter != "",
		"--pod-cidr with IPv6":   c.Dual(),
	} {
		if given {
			return fmt.Errorf("%s: not with --supervisor %s, by which Windows nodes are set up by `porthole join`",
				flag, SuperviseServices)
		}
	}
	return nil
}

// checkFamilies returns an error if something of the cluster has no IPv6 and its pods have a range of it.
func (c Cluster) checkFamilies() error {
	if !c.Dual() {
		return nil
	}
	if err := routes.CheckFamilies(c.Network); err != nil {
		return fmt.Errorf("--pod-cidr %s: %w", c.PodCIDR, err)
	}
	for _, n := range c.Nodes() {
		if n.Windows && winbuild.Build(n.Build) < winbuild.Server2004 {
			return fmt.Errorf(
				"--pod-cidr %s: Windows of build %d has no networks with IPv6, which begin with build %d: choose another --windows-build, or a range of IPv4 alone", c.PodCIDR, n.Build, winbuild.Server2004)
		}
	}
	return nil
}
