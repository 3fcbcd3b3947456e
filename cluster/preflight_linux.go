package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// ErrNotReady is the cause of an error of Preflight: nothing has been changed.
var ErrNotReady = errors.New("this machine is not ready for a cluster, and nothing was changed")

// Preflight returns an error that has a line for each thing that the machine lacks, with what to do about it. It
// changes nothing.
func Preflight(ctx context.Context, l Layout, c Config) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: a local cluster needs root (namespaces, mounts, cgroups): run it with sudo", ErrNotReady)
	}
	errs := append(missingPrograms(l, c), hostsFree(l, c)...)
	errs = append(errs, unfitWine(ctx, l, c))
	if lacks := c.network().preflight; lacks != nil {
		errs = append(errs, lacks(l, c)...)
	}
	if active, _ := supervise.Supervisors(l.RunDir()); active.PID == 0 {
		m, err := observe(ctx, l.Dir)
		ports := errors.Join(portFree("--api-port", c.at(c.APIPort)), portFree("--registry-port", c.at(c.RegistryPort)))
		errs = append(errs, err, ports, checkInotify(c))
		errs = append(errs, m.lacking(c, l.Dir)...)
	}

	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	text := " " + err.Error()
	if strings.Contains(text, "\n") {
		text = "\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  ")
	}
	return fmt.Errorf("%w:%s", ErrNotReady, text)
}

// unfitWine returns an error if the Windows nodes would run with a Wine that is there and is not one that can be
// mended.
func unfitWine(ctx context.Context, l Layout, c Config) error {
	if c.WindowsNodes == 0 {
		return nil
	}
	_, err := host.Store{Dir: l.Dir, Bin: l.Bin}.Wine(ctx)
	if errors.Is(err, wine.ErrNotInstalled) {
		return nil // missingPrograms says what is missing
	}
	return err
}

// missingPrograms returns an error for each program that a cluster starts and that is not there.
func missingPrograms(l Layout, c Config) (errs []error) {
	for _, program := range []string{"porthole", "bundle/kube", "bundle/containerd", "bundle/containerd-shim-runc-v2",
		"bundle/registry", "bundle/cni/bridge"} {
		if _, err := os.Stat(l.Bin + "/" + program); err != nil {
			errs = append(errs, fmt.Errorf("%s/%s is missing: `make build` makes it", l.Bin, program))
		}
	}
	if _, err := os.Stat(l.Bundled("kubelet")); err != nil && c.LinuxKubelet == KubeletUpstream {
		errs = append(errs,
			fmt.Errorf(
				"%s, for --linux-kubelet upstream, is missing: `make upstream-kubelet` makes it from the sources; no archive has it", l.Bundled("kubelet")))
	}

	for _, p := range []struct{ program, pkg string }{{"runc", "runc"}, {"nft", "nftables"}, {"iptables", "iptables"}} {
		if _, err := exec.LookPath(p.program); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing: apt-get install %s", p.program, p.pkg))
		}
	}
	if c.WindowsNodes > 0 {
		if _, err := wine.Find(); err != nil {
			errs = append(errs, err)
		}
		for _, name := range append([]string{"kubelet", "kube-proxy", "porthole", "win-bridge"},
			c.network().plugins...) {
			if _, err := os.Stat(l.WindowsExe(name)); err != nil {
				errs = append(errs, fmt.Errorf("%s is missing: `make build` makes it", l.WindowsExe(name)))
			}
		}
	}

	if c.WindowsNodes > 0 {
		for _, name := range host.RuntimePrograms {
			if _, err := os.Stat(l.Bundled("windows/" + name)); err != nil {
				errs = append(errs, fmt.Errorf("%s is missing: `make windows-runtime` makes it",
					l.Bundled("windows/"+name)))
			}
		}
	}
	return errs
}

// hostsFree returns an error if another folder's cluster has the hosts' namespaces: their names follow from the
// cluster's, so a machine carries one of each name.
func hostsFree(l Layout, c Config) []error {
	if _, err := readConfig(l); err == nil {
		return nil
	}
	var errs []error
	for _, n := range c.Nodes() {
		if name := c.lab().Netns(n.Name); platform.NetnsExists(name) {
			errs = append(errs, fmt.Errorf("network namespace %s is there already: a cluster in another folder? "+
				"`porthole down --dir THAT-FOLDER` first, or choose another --name", name))
		}
	}
	return errs
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

// ChoosePorts returns the ports of the cluster in a folder. If there is none, it returns the first ports that are free
// on 127.0.0.1 after those of the cluster without a name.
func ChoosePorts(l Layout) (api, registry int, err error) {
	c, err := readConfig(l)
	if err == nil {
		return c.APIPort, c.RegistryPort, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return 0, 0, err
	}
	c = DefaultConfig()
	return freeAfter(c.APIPort), freeAfter(c.RegistryPort), nil
}

// freeAfter returns the first port behind another that is free, or the last that it looks at.
func freeAfter(port int) int {
	last := port + maxClusters
	for port++; portFree("", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) != nil && port < last; port++ {
	}
	return port
}

// maxClusters is how many ports freeAfter looks at.
const maxClusters = 100

func portFree(flag, address string) error {
	l, err := net.Listen("tcp", address)
	host, port, splitErr := net.SplitHostPort(address)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("port %s of %s is in use: choose another with %s", port, host, flag)
	}
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("%s is no address of this machine: --listen gives one, or 0.0.0.0", host)
	}
	if err := errors.Join(err, splitErr); err != nil {
		return fmt.Errorf("%s %s: %w", flag, port, err)
	}
	return l.Close()
}
