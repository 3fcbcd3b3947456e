package platform

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckNode returns an error, in upstream's words, for the first rule that this machine breaks. A machine with both
// versions of cgroups counts as version 1.
func CheckNode(r NodeRules) error {
	if r.NoSwap {
		// a heading, then one line for each place; absent without swap in the kernel
		data, err := os.ReadFile("/proc/swaps")
		if err == nil && strings.Contains(strings.TrimSpace(string(data)), "\n") {
			return errors.New(
				"running with swap on is not supported, please disable swap or set --fail-swap-on flag to false")
		}
	}
	var fs unix.Statfs_t
	first := unix.Statfs("/sys/fs/cgroup", &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC
	if r.LimitedSwap && first {
		return errors.New("swap feature is enabled and LimitedSwap but it is only supported with cgroupv2")
	}
	if r.EndAllOnOOM && first {
		return errors.New(
			"invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1")
	}
	if r.NoCgroupV1 && first {
		return errors.New(
			"kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release")
	}
	return nil
}

// CheckPrivileges returns an error, in upstream's words, if this process lacks the privileges that pods need.
func CheckPrivileges() error {
	if uid := os.Getuid(); uid != 0 {
		return fmt.Errorf("kubelet needs to run as uid `0`. It is being run as %d", uid)
	}
	return nil
}

// Claim asks the system for r. The error names what it refuses; the program can go on without.
func Claim(r Resources) error {
	err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(r.OOMScore)), 0o644)
	limit := unix.Rlimit{Cur: r.OpenFiles, Max: r.OpenFiles}
	return errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}
