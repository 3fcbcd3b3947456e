package preflight

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/emulator/dataplane/probe"
)

// machine is what a cluster needs to know of the machine before it starts.
type machine struct {
	memory, disk int64    // free bytes; 0 if unknown
	controllers  []string // of cgroups, of all hierarchies
	overlay      bool     // the kernel has the overlay file system
	bridgeFilter bool     // the kernel has br_netfilter
	readOnly     error    // why files cannot be made where the state folder belongs
	lacks        []probe.Lack
}

// Memory and disk of a cluster without pods of users, measured on one with the default settings. The proportional set
// sizes of all its processes were 950 MiB together, 150 of them for each Windows node. The state folder took 1,110
// MiB, 850 of them for Wine's template. The numbers here are rounded up.
const (
	memoryOfControlPlane = 800 << 20
	memoryOfLinuxNode    = 150 << 20
	memoryOfWindowsNode  = 200 << 20

	diskOfControlPlane = 1300 << 20
	diskOfWindowsNode  = 60 << 20
)

// controllers are those of cgroups without which a kubelet does not start (k8s.io/kubernetes/pkg/kubelet/cm).
var controllers = []string{"cpu", "cpuset", "memory", "pids"}

// observe reads what the machine has for a cluster in dir.
func observe(ctx context.Context, dir string) (m machine, err error) {
	m.memory = freeMemory()
	place := existing(dir)
	var st unix.Statfs_t
	if unix.Statfs(place, &st) == nil {
		m.disk = int64(st.Bavail) * st.Bsize
	}
	if err := unix.Access(place, unix.W_OK); err != nil {
		m.readOnly = fmt.Errorf("%s: %w", place, err)
	}
	m.controllers = cgroupControllers()
	m.overlay = hasOverlay()
	m.bridgeFilter = hasBridgeFilter(ctx)
	m.lacks, err = probe.Run(ctx, "")
	return m, err
}

// lacking returns an error for each thing that the machine has not for this cluster, with what to do about it.
func (m machine) lacking(c config.Cluster, dir string) (errs []error) {
	if m.readOnly != nil {
		errs = append(errs, fmt.Errorf("no files can be made in %s (%w): choose another folder with --dir", dir,
			m.readOnly))
	}
	memory := int64(memoryOfControlPlane + memoryOfLinuxNode*c.LinuxNodes + memoryOfWindowsNode*c.WindowsNodes)
	if m.memory > 0 && m.memory < memory {
		errs = append(errs, fmt.Errorf("%d MiB of memory are free, and this cluster takes about %d: "+
			"end other programs, or choose fewer nodes with --windows-nodes and --linux-nodes", m.memory>>20,
			memory>>20))
	}
	disk := int64(diskOfControlPlane + diskOfWindowsNode*c.WindowsNodes)
	if m.disk > 0 && m.disk < disk {
		errs = append(errs, fmt.Errorf("%d MiB are free where %s lies, and this cluster takes about %d: "+
			"remove files, or choose another folder with --dir", m.disk>>20, dir, disk>>20))
	}

	for _, name := range controllers {
		if !slices.Contains(m.controllers, name) {
			errs = append(errs,
				fmt.Errorf("cgroups have no controller %s: start the machine without cgroup_disable=%[1]s; "+
					"in a container, with a private cgroup namespace and --privileged", name))
		}
	}
	if !m.overlay {
		errs = append(errs, errors.New("this kernel has no overlay file system (CONFIG_OVERLAY_FS): "+
			"take a distribution's kernel"))
	}
	if !m.bridgeFilter && c.LinuxNodes > 0 {
		errs = append(errs, errors.New("this kernel has no br_netfilter (CONFIG_BRIDGE_NETFILTER), without which "+
			"a pod of a Linux node does not reach a service whose pod is on the same node: "+
			"modprobe br_netfilter, or take a distribution's kernel"))
	}
	for _, l := range m.lacks {
		if !doesWithout(c, l.Ability) {
			errs = append(errs, errors.New(l.Text))
		}
	}
	return errs
}

// doesWithout reports whether a cluster needs no such ability of the data plane.
func doesWithout(c config.Cluster, ability string) bool {
	r, err := c.Ranges()
	switch ability {
	case "nft":
		return true // missingPrograms has said it
	case probe.VXLANDevices:
		return c.Network != "vxlan"
	case probe.NATOfIPv6:
		return err == nil && len(r.Pods) == 1
	default:
		return c.WindowsNodes == 0
	}
}

// hasOverlay reports whether the kernel has the overlay file system. If it is a module that is not loaded,
// fsopen(2) makes the kernel load it.
func hasOverlay() bool {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return !errors.Is(err, unix.ENODEV)
	}
	_ = unix.Close(fd)
	return true
}

// existing is the path, or the folder above it that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// freeMemory is what the kernel can give to new programs without swapping; 0 if it does not say.
func freeMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// cgroupControllers names the controllers of all hierarchies: of version 2, where it is the only one, or of version 1.
func cgroupControllers() (names []string) {
	const root = "/sys/fs/cgroup"
	if data, err := os.ReadFile(root + "/cgroup.controllers"); err == nil {
		return strings.Fields(string(data))
	}
	folders, _ := os.ReadDir(root)
	for _, f := range folders {
		names = append(names, f.Name())
	}
	return names
}
