package preflight

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/dataplane/probe"
)

// TestMachineLacks: each thing that a machine lacks is said with its cure, and one that has all passes.
func TestMachineLacks(t *testing.T) {
	whole := machine{memory: 4 << 30, disk: 4 << 30, overlay: true, bridgeFilter: true,
		controllers: []string{"cpuset", "cpu", "io", "memory", "pids"}}
	both := func(c *config.Cluster) { c.PodCIDR = "10.244.0.0/16,fd00:10:244::/48" }
	lack := func(ability string) func(*machine) {
		return func(m *machine) { m.lacks = []probe.Lack{{Ability: ability, Text: "no " + ability}} }
	}

	for _, c := range []struct {
		name    string
		machine func(*machine)
		config  func(*config.Cluster)
		want    string // in the only error; empty: nothing is lacking
	}{
		{"all", nil, nil, ""},
		{"unknown memory and disk", func(m *machine) { m.memory, m.disk = 0, 0 }, nil, ""},
		{"memory", func(m *machine) { m.memory = 1 << 30 }, nil, "1024 MiB of memory are free"},
		{"memory of many nodes", nil, func(c *config.Cluster) { c.WindowsNodes = 20 },
			"choose fewer nodes with --windows-nodes"},
		{"disk", func(m *machine) { m.disk = 500 << 20 }, nil, "500 MiB are free where /d lies"},
		{"a controller", func(m *machine) { m.controllers = m.controllers[:4] }, nil, "no controller pids"},
		{"overlay", func(m *machine) { m.overlay = false }, nil, "CONFIG_OVERLAY_FS"},
		{"br_netfilter", func(m *machine) { m.bridgeFilter = false }, nil, "modprobe br_netfilter"},
		{"br_netfilter, no Linux node", func(m *machine) { m.bridgeFilter = false },
			func(c *config.Cluster) { c.LinuxNodes = 0 }, ""},
		{"read-only", func(m *machine) { m.readOnly = unix.EROFS }, nil,
			"no files can be made in /d (read-only file system): choose another folder with --dir"},
		{"nft", lack("nft"), nil, ""},
		{"nft numgen", lack("nft numgen"), nil, "no nft numgen"},
		{"nft numgen, no Windows", lack("nft numgen"), func(c *config.Cluster) { c.WindowsNodes = 0 }, ""},
		{"vxlan, not used", lack(probe.VXLANDevices), nil, ""},
		{"vxlan, used", lack(probe.VXLANDevices), func(c *config.Cluster) { c.Network = "vxlan" },
			"no vxlan devices"},
		{"IPv6, not used", lack(probe.NATOfIPv6), nil, ""},
		{"IPv6, used", lack(probe.NATOfIPv6), both, "no nft NAT of family ip6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, cluster := whole, config.Default()
			if c.machine != nil {
				c.machine(&m)
			}
			if c.config != nil {
				c.config(&cluster)
			}
			errs := m.lacking(cluster, "/d")
			if c.want == "" && len(errs) > 0 ||
				c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)) {
				t.Errorf("%v, want %q", errs, c.want)
			}
		})
	}
}

// TestObserve reads this machine, on which the tests of a cluster run, and a folder in which nobody can make files.
func TestObserve(t *testing.T) {
	m, err := observe(t.Context(), t.TempDir()+"/not/there/yet")
	if errs := m.lacking(config.Default(), "/d"); err != nil || len(errs) > 0 {
		t.Errorf("this machine: %v, %v", err, errs)
	}
	if m.memory == 0 || m.disk == 0 {
		t.Errorf("%+v", m)
	}

	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	err = Check(t.Context(), layout.Layout{Dir: dir + "/state", Bin: t.TempDir()}, config.Default())
	if !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "no files can be made in "+dir+"/state") {
		t.Errorf("on a read-only file system: %v", err)
	}
}
