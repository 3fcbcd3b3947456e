// Package preflight says what a machine lacks for a local cluster, with what to do about it. It changes nothing.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// ErrNotReady is the cause of an error of Check: nothing has been changed.
var ErrNotReady = errors.New("this machine is not ready for a cluster, and nothing was changed")

// Check returns an error that has a line for each thing that the machine lacks, with what to do about it. It
// changes nothing.
func Check(ctx context.Context, l layout.Layout, c config.Cluster) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: a local cluster needs root (namespaces, mounts, cgroups): run it with sudo", ErrNotReady)
	}
	errs := append(missingPrograms(l, c), hostsFree(l, c)...)
	errs = append(errs, unfitWine(ctx, l, c))
	if lacks := network.Of(c).Preflight; lacks != nil {
		errs = append(errs, lacks(l, c)...)
	}
	if active, _ := supervise.Supervisors(l.RunDir()); active.PID == 0 {
		m, err := observe(ctx, l.Dir)
		ports := errors.Join(portFree("--api-port", c.At(c.APIPort)), portFree("--registry-port", c.At(c.RegistryPort)))
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
func unfitWine(ctx context.Context, l layout.Layout, c config.Cluster) error {
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
func missingPrograms(l layout.Layout, c config.Cluster) (errs []error) {
	for _, program := range []string{"porthole", "bundle/kube", "bundle/containerd", "bundle/containerd-shim-runc-v2",
		"bundle/registry", "bundle/cni/bridge"} {
		if _, err := os.Stat(l.Bin + "/" + program); err != nil {
			errs = append(errs, fmt.Errorf("%s/%s is missing: `make build` makes it", l.Bin, program))
		}
	}
	if _, err := os.Stat(l.Bundled("kubelet")); err != nil && c.LinuxKubelet == config.KubeletUpstream {
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
			network.Of(c).Plugins...) {
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
func hostsFree(l layout.Layout, c config.Cluster) []error {
	if _, err := config.Read(l); err == nil {
		return nil
	}
	var errs []error
	for _, n := range c.Nodes() {
		if name := c.Lab().Netns(n.Name); platform.NetnsExists(name) {
			errs = append(errs, fmt.Errorf("network namespace %s is there already: a cluster in another folder? "+
				"`porthole down --dir THAT-FOLDER` first, or choose another --name", name))
		}
	}
	return errs
}
