package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryOf reads the working set of a cgroup and those below it: what is in use but for files that were not used for
// long, as upstream counts it.
func memoryOf(path string) (uint64, error) {
	dir := filepath.Join(mountPoint, path)
	current := "memory.current"
	inactive := "inactive_file"
	if !unified() {
		dir = filepath.Join(mountPoint, "memory", path)
		current = "memory.usage_in_bytes"
		inactive = "total_inactive_file"
	}

	used, err := os.ReadFile(filepath.Join(dir, current))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of the cgroup %s: %w", path, err)
	}
	total, err := strconv.ParseUint(strings.TrimSpace(string(used)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the memory of the cgroup %s: %w", path, err)
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of the cgroup %s: %w", path, err)
	}

	for line := range strings.Lines(string(stat)) {
		if name, text, _ := strings.Cut(strings.TrimSpace(line), " "); name == inactive {
			cold, _ := strconv.ParseUint(text, 10, 64)
			return total - min(total, cold), nil
		}
	}
	return total, nil
}

// LimitsSwap reports whether the kernel limits swap space by cgroup.
func LimitsSwap() bool {
	if !unified() {
		_, err := os.Stat(filepath.Join(mountPoint, "memory", "memory.memsw.limit_in_bytes"))
		return err == nil
	}
	// The topmost cgroup has no limits. The kubelet itself can be there, where no systemd gives it one of its own.
	found, _ := filepath.Glob(filepath.Join(mountPoint, "*", "memory.swap.max"))
	return len(found) > 0
}
