package platform

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckNode says which rule this machine breaks, in upstream's words. A machine with both versions of control groups
// counts as version 1.
func CheckNode(r NodeRules) error {
	if r.NoSwap {
		data, err := os.ReadFile("/proc/swaps") // a heading, then one line for each place; absent without swap in the kernel
		if err == nil && strings.Contains(strings.TrimSpace(string(data)), "\n") {
			return errors.New("running with swap on is not supported, please disable swap or set --fail-swap-on flag to false")
		}
	}
	var fs unix.Statfs_t
	if r.NoCgroupV1 && (unix.Statfs("/sys/fs/cgroup", &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC) {
		return errors.New("kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release")
	}
	return nil
}

// CheckPrivileges refuses to run without those that pods need, in upstream's words.
func CheckPrivileges() error {
	if uid := os.Getuid(); uid != 0 {
		return fmt.Errorf("kubelet needs to run as uid `0`. It is being run as %d", uid)
	}
	return nil
}

// Claim asks the system for r. What it does not give is in the error; the program can go on without.
func Claim(r Resources) error {
	err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(r.OOMScore)), 0o644)
	limit := unix.Rlimit{Cur: r.OpenFiles, Max: r.OpenFiles}
	return errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}
