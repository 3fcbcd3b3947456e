package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// restCgroup is where the processes of a container are that LeaveCgroupRoot has moved.
const restCgroup = "porthole-rest"

// cgroupRoot is where Linux distributions and container runtimes mount cgroups.
const cgroupRoot = "/sys/fs/cgroup"

// LeaveCgroupRoot lets a container with a cgroup namespace of its own limit cgroups. With cgroup v2, a cgroup that
// contains processes cannot give controllers to its children ("no internal processes", cgroups(7)); only the
// machine's own root can. LeaveCgroupRoot moves the processes in the root of the namespace into a child cgroup. It
// does nothing on a machine's own root, with cgroup v1, and if there are no such processes.
func LeaveCgroupRoot() error {
	if err := leaveCgroupRoot(cgroupRoot); err != nil {
		return fmt.Errorf("making room for cgroups with limits: %w", err)
	}
	return nil
}

// moves bounds how often the processes of a cgroup are read: some start others meanwhile.
const moves = 100

func leaveCgroupRoot(root string) error {
	if _, err := os.Stat(filepath.Join(root, "cgroup.type")); err != nil {
		return nil // the machine's own root, or of version 1: neither has the file
	}
	if pids, err := cgroupProcesses(root); err != nil || len(pids) == 0 {
		return err
	}
	rest := filepath.Join(root, restCgroup)
	if err := os.Mkdir(rest, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return moveProcesses(root, rest)
}

// ReturnToCgroupRoot undoes LeaveCgroupRoot, unless other cgroups are there.
func ReturnToCgroupRoot() error {
	rest := filepath.Join(cgroupRoot, restCgroup)
	if _, err := os.Stat(rest); err != nil {
		return nil
	}
	below, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if err != nil || len(below) > 1 {
		return err
	}

	control := filepath.Join(cgroupRoot, "cgroup.subtree_control")
	given, err := os.ReadFile(control)
	for name := range strings.FieldsSeq(string(given)) {
		err = errors.Join(err, os.WriteFile(control, []byte("-"+name), 0))
	}
	if err = errors.Join(err, moveProcesses(rest, cgroupRoot)); err == nil {
		err = unix.Rmdir(rest)
	}
	if err != nil {
		return fmt.Errorf("taking the cgroup %s away: %w", rest, err)
	}
	return nil
}

func moveProcesses(from, to string) error {
	for range moves {
		pids, err := cgroupProcesses(from)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if pid == 0 {
				return fmt.Errorf("%s has processes of another PID namespace", from)
			}
			err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("moving process %d: %w", pid, err)
			}
		}
	}
	return fmt.Errorf("%s has new processes all the time", from)
}

// cgroupProcesses returns the processes of one cgroup: 0 for each of another PID namespace.
func cgroupProcesses(dir string) (pids []int, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	for f := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("reading the processes of %s: %w", dir, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
