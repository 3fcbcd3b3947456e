package platform

import (
	"errors"
	"os"
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
