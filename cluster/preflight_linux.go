package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// Preflight returns an error for each thing that the machine lacks, with what to do about it. It changes nothing.
func Preflight(l Layout, c Config) error {
	if os.Geteuid() != 0 {
		return errors.New("a local cluster needs root (namespaces, mounts, cgroups): run it with sudo")
	}
	var errs []error
	for _, program := range []string{"porthole", "bundle/kube", "bundle/containerd", "bundle/containerd-shim-runc-v2", "bundle/registry", "bundle/cni/bridge"} {
		if _, err := os.Stat(l.Bin + "/" + program); err != nil {
			errs = append(errs, fmt.Errorf("%s/%s is missing: `make build` makes it", l.Bin, program))
		}
	}

	for program, pkg := range map[string]string{"runc": "runc", "nft": "nftables", "iptables": "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing: apt-get install %s", program, pkg))
		}
	}
	if c.WindowsNodes > 0 {
		if _, err := wine.Find(); err != nil {
			errs = append(errs, err)
		}
		for _, name := range append([]string{"kubelet", "kube-proxy", "porthole", "win-bridge"}, c.network().plugins...) {
			if _, err := os.Stat(l.WindowsExe(name)); err != nil {
				errs = append(errs, fmt.Errorf("%s is missing: `make build` makes it", l.WindowsExe(name)))
			}
		}
	}

	if c.WindowsNodes > 0 {
		for _, name := range host.RuntimePrograms {
			if _, err := os.Stat(l.Bundled("windows/" + name)); err != nil {
				errs = append(errs, fmt.Errorf("%s is missing: `make windows-runtime` makes it", l.Bundled("windows/"+name)))
			}
		}
	}

	if lacks := c.network().preflight; lacks != nil {
		errs = append(errs, lacks(l, c)...)
	}
	errs = append(errs, checkKernel()...)
	if active, _ := supervise.Supervisors(l.RunDir()); active.PID == 0 {
		errs = append(errs, portFree("--api-port", c.APIPort), portFree("--registry-port", c.RegistryPort), checkInotify(c))
	}
	return errors.Join(append(errs, hostsFree(l, c)...)...)
}

// hostsFree returns an error if another folder's cluster has the hosts' namespaces: their names are fixed, so a machine carries one
// cluster.
func hostsFree(l Layout, c Config) []error {
	if _, err := readConfig(l); err == nil {
		return nil
	}
	var errs []error
	for _, n := range c.Nodes() {
		if name := lab.Netns(n.Name); platform.NetnsExists(name) {
			errs = append(errs, fmt.Errorf("network namespace %s is there already: a cluster in another folder? `porthole down --dir THAT-FOLDER` first", name))
		}
	}
	return errs
}

// checkKernel returns an error for each feature of the kernel that containers and their networks need and that is missing.
func checkKernel() []error {
	var errs []error
	data, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(data), "\toverlay\n") && exec.Command("modprobe", "overlay").Run() != nil {
		errs = append(errs, errors.New("this kernel has no overlay file system (CONFIG_OVERLAY_FS)"))
	}
	if _, err := os.Stat("/proc/self/ns/net"); err != nil {
		errs = append(errs, errors.New("this kernel has no network namespaces (CONFIG_NET_NS)"))
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC && st.Type != unix.TMPFS_MAGIC {
		errs = append(errs, errors.New("no cgroups are mounted at /sys/fs/cgroup"))
	}
	return errs
}

func portFree(flag string, port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("port %d of 127.0.0.1 is in use: choose another with %s", port, flag)
	}
	if err != nil {
		return fmt.Errorf("%s %d: %w", flag, port, err)
	}
	return l.Close()
}
