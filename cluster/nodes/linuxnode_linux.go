package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/internal/platform"
)

// writeLinuxNode writes what only a Linux node has.
func writeLinuxNode(l layout.Layout, c config.Cluster, n config.Node) error {
	if c.LinuxKubelet == config.KubeletUpstream {
		if err := makeCgroups(c, n); err != nil {
			return err
		}
	}
	return errors.Join(
		install.File(l.NodeFile(n.Name, "resolv.conf"), []byte(noResolver), 0o644),
		os.MkdirAll(l.PodLogs(n.Name), 0o755),
		writeContainerd(l, n),
	)
}

func writeContainerd(l layout.Layout, n config.Node) error {
	o := containerdconf.Options{
		Dir: l.NodeFile(n.Name, "containerd"), Registry: "http://" + config.Registry(),
		CNIConfDir: l.NodeFile(n.Name, "cni", "net.d"), CNIBinDir: l.Bundled("cni"),
		InternalLoopback: true,
	}
	return containerdconf.Write(o)
}

// makeCgroups makes the node's cgroup in every hierarchy: upstream's kubelet expects it there, and ours makes it. A
// cpuset takes no process before it has processors and memory, which are those of the cgroup above.
func makeCgroups(c config.Cluster, n config.Node) error {
	if err := platform.LeaveCgroupRoot(); err != nil {
		return err
	}
	hierarchies := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // version 1: one folder for each
		hierarchies, _ = filepath.Glob("/sys/fs/cgroup/*")
	}

	for _, h := range hierarchies {
		if _, err := os.Stat(filepath.Join(h, "cgroup.procs")); err != nil {
			continue // nothing is mounted there
		}
		dir := h
		for _, name := range strings.Split(strings.Trim(c.Lab().Cgroup(n.Name), "/"), "/") {
			above := dir
			if dir = filepath.Join(dir, name); os.MkdirAll(dir, 0o755) != nil {
				return fmt.Errorf("making the cgroup %s", dir)
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				value, err := os.ReadFile(filepath.Join(above, file))
				if err != nil { // this hierarchy has no cpuset
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
					return fmt.Errorf("making the cgroup %s: %w", dir, err)
				}
			}
		}
	}
	return nil
}
