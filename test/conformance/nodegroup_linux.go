package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/kubelet/cgroup"
)

// cgroups is where the machine's hierarchies are mounted, below it or, with version 2 alone, right
// there.
const cgroups = "/sys/fs/cgroup"

// hierarchy is a tree of cgroups: that of some controllers of version 1, or that of version 2.
// point is the mount point, kind cgroup or cgroup2, options those of the mount.
type hierarchy struct{ point, kind, options string }

// hierarchies are those that are mounted, from a table of mounts.
func hierarchies(mounts string) (out []hierarchy) {
	// The fields of a line are device, mount point, type and options (proc(5)).
	for line := range strings.Lines(mounts) { // cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" && f[2] != "cgroup2" ||
			slices.ContainsFunc(out, func(h hierarchy) bool { return h.point == f[1] }) {
			continue
		}
		if strings.Contains(f[3], "name=") { // systemd's, which has no controller
			f[3] = "none," + f[3]
		}
		out = append(out, hierarchy{f[1], f[2], f[3]})
	}
	return out
}

// makeGroup gives the machine a cgroup of its own in every hierarchy: tests of eviction by memory wait until as much
// is left of what the root of the cgroups counts as they have reckoned from the beginning, and what runs on this
// computer beside the suite is not to count.
func (s *nodeSuite) makeGroup() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	if s.trees = hierarchies(string(mounts)); len(s.trees) == 0 {
		return errors.New("no cgroups are mounted")
	}
	// The first folder's name is free in one hierarchy and used in all.
	first, err := os.MkdirTemp(s.trees[0].point, "phs-")
	if err != nil {
		return fmt.Errorf("making a cgroup of %s: %w", suiteNode, err)
	}
	s.group = filepath.Base(first)
	for _, h := range s.trees {
		if err := h.make(s.group); err != nil {
			return fmt.Errorf("making a cgroup of %s: %w", suiteNode, err)
		}
	}
	return nil
}

// make makes a cgroup that processes can join, with all controllers.
func (h hierarchy) make(group string) error {
	dir := filepath.Join(h.point, group)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	// With version 2 a controller must be passed on by the parent before a child has it.
	if h.kind == "cgroup2" {
		has, err := os.ReadFile(filepath.Join(h.point, "cgroup.controllers"))
		for name := range strings.FieldsSeq(string(has)) {
			err = errors.Join(err, os.WriteFile(filepath.Join(h.point, "cgroup.subtree_control"), []byte("+"+name), 0))
		}
		return err
	}

	// A cpuset of version 1 begins empty, and no process can join it then.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(h.point, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, file), bytes.TrimSpace(have), 0)); err != nil {
			return err
		}
	}
	return nil
}

// removeGroup removes the machine's cgroup and what the kubelet left in it.
func (s *nodeSuite) removeGroup() error {
	if s.group == "" {
		return nil
	}
	return cgroup.Remove(s.group)
}

// joining is the script that starts the machine in its cgroup, which it sees as the root of all.
func (s *nodeSuite) joining() string {
	// The shell joins the group in each hierarchy, before namespaces hide the rest.
	text := "set -e\n"
	for _, h := range s.trees {
		text += fmt.Sprintf("echo 0 >%s\n", filepath.Join(h.point, s.group, "cgroup.procs"))
	}
	return text + fmt.Sprintf(
		"exec unshare -m -u -p -C --fork --kill-child --mount-proc --propagation private bash %s \"$@\"\n",
		s.at("machine"))
}

// mounting are the lines of the machine's script that mount its cgroups in place of the computer's. With version 2
// alone a cgroup that passes controllers on can have no processes, unless it is the computer's own root: they go into
// one below.
func mounting(trees []hierarchy) string {
	text := "umount -Rl " + cgroups + "\n"
	if trees[0].point != cgroups {
		text += "mount -t tmpfs -o mode=755 cgroup " + cgroups + "\n"
	}
	for _, h := range trees {
		text += fmt.Sprintf("mkdir -p %s\nmount -t %s -o %s %s %s\n", h.point, h.kind, h.options, h.kind, h.point)
		if h.point == cgroups {
			text += fmt.Sprintf("mkdir %[1]s/init\necho 0 >%[1]s/init/cgroup.procs\n", cgroups)
		}
	}
	return text
}
