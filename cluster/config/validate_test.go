package config

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	const both = "10.244.0.0/16,fd00:10:244::/48"
	for name, c := range map[string]struct {
		change func(*Cluster)
		want   string
	}{
		"default":       {func(*Cluster) {}, ""},
		"no Linux node": {func(c *Cluster) { c.LinuxNodes = 0 }, "--linux-nodes 0"},
		"old build":     {func(c *Cluster) { c.WindowsBuild = "14393" }, "HCN"},
		"two builds":    {func(c *Cluster) { c.WindowsBuild = "20348,ltsc2025" }, ""},
		"an old one": {func(c *Cluster) { c.WindowsBuild = "20348,17134" },
			"17134 (Windows Server, version 1803) of Windows is too old"},
		"no build":        {func(c *Cluster) { c.WindowsBuild = "20348," }, "is no build of Windows"},
		"not emulated":    {func(c *Cluster) { c.WindowsBuild = "19041" }, "20348"},
		"unknown network": {func(c *Cluster) { c.Network = "ipip" }, "--network ipip"},
		"both families":   {func(c *Cluster) { c.PodCIDR = both }, ""},
		"overlay of IPv6": {func(c *Cluster) { c.PodCIDR, c.Network = both, "vxlan" },
			"mode vxlan carries IPv4 only: give ranges of IPv4 alone, or choose one of host-gateway, tor"},
		"Windows of old": {func(c *Cluster) { c.PodCIDR, c.WindowsBuild = both, "20348,17763" },
			"Windows of build 17763 has no networks with IPv6"},
		"two cards": {func(c *Cluster) { c.WindowsNIC = "10.98.0.0/24,gateway=10.98.0.1,metric=10" }, ""},
		"a host, no net": {func(c *Cluster) { c.WindowsNIC = "10.98.0.5/24" },
			"--windows-nic 10.98.0.5/24: give a subnet"},
		"a small net": {func(c *Cluster) { c.WindowsNIC = "10.98.0.0/28" }, "room for all nodes"},
		"no net": {func(c *Cluster) { c.WindowsNIC = "storage" },
			"--windows-nic: \"storage\" is not an address"},
		"the nodes' net": {func(c *Cluster) { c.WindowsNIC = "10.99.0.0/24" }, "overlaps with 10.99.0.0/24"},
		"the pods' net": {func(c *Cluster) { c.WindowsNIC, c.PodCIDR = "10.98.0.0/24", "10.98.0.0/16" },
			"overlaps with the range of the pods, 10.98.0.0/16"},
		"cards of OVN": {func(c *Cluster) { c.WindowsNIC, c.Network = "10.98.0.0/24", "ovn" },
			"have a second network card already"},
		"a node's own": {func(c *Cluster) { c.WindowsNIC, c.WindowsNodes = "10.98.0.0/24,gateway=10.98.0.22", 2 },
			"its gateway 10.98.0.22 must be another address"},
		"other adapter": {func(c *Cluster) { c.WindowsNIC, c.WindowsAdapter = "10.98.0.0/24", "Ethernet 2" }, ""},
		"no such adapter": {func(c *Cluster) { c.WindowsAdapter = "Ethernet 2" },
			"--windows-adapter \"Ethernet 2\": Windows nodes of this cluster have [\"Ethernet\"] only"},
		"kubelets alone": {func(c *Cluster) { c.WindowsKubeletOnly = true }, ""},
		"too many":       {func(c *Cluster) { c.WindowsNodes = 41 }, "--windows-nodes 41"},
	} {
		t.Run(name, func(t *testing.T) {
			config := Default()
			c.change(&config)

			err := config.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestSupervisorRefuses: what `porthole join` does not do on Windows is refused by its flag.
func TestSupervisorRefuses(t *testing.T) {
	for flag, change := range map[string]func(*Cluster){
		"--supervisor systemd": func(c *Cluster) { c.Supervisor = "systemd" },
		"--windows-firewall":   func(c *Cluster) { c.WindowsFirewall = true },
		"--pod-cidr with IPv6": func(c *Cluster) { c.PodCIDR = "10.244.0.0/16,fd00:10:244::/48" },
	} {
		c := Default()
		c.Supervisor = SuperviseServices
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
