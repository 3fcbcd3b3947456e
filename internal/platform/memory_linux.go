package platform

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readMemory reads how much memory and swap there is, and is in use. What is in use is what the root of the cgroups
// counts, as with upstream's kubelet: in a container, or with a cgroup namespace, that is less than the machine, whose
// processes elsewhere are none of the node's. Without cgroups it is the machine.
func readMemory(u *Usage) error {
	info, err := numbersIn("/proc/meminfo", 1<<10) // the file has kB
	if err != nil {
		return fmt.Errorf("reading memory usage: %w", err)
	}
	u.MemoryTotal = info["MemTotal:"]
	u.SwapTotal = info["SwapTotal:"]
	u.SwapFree = info["SwapFree:"]

	used, cold, err := rootGroup("/sys/fs/cgroup")
	if err != nil {
		used = u.MemoryTotal - min(u.MemoryTotal, info["MemFree:"])
		cold = info["Inactive(file):"]
	}
	u.MemoryUsed = used
	u.MemoryWorkingSet = used - min(used, cold)
	return nil
}

// rootGroup reads the memory that the root of the cgroups counts, and the part of it that is files not used for long.
// The machine's own root has no count with version 2: it is reckoned from the parts that version 1 counts there.
func rootGroup(dir string) (used, cold uint64, err error) {
	count, inactive := "memory.current", "inactive_file"
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil {
		dir = filepath.Join(dir, "memory")
		count = "memory.usage_in_bytes"
		inactive = "total_inactive_file"
	}
	stat, err := numbersIn(filepath.Join(dir, "memory.stat"), 1)
	if err != nil {
		return 0, 0, err
	}

	text, err := os.ReadFile(filepath.Join(dir, count))
	if err != nil {
		return stat["anon"] + stat["file"], stat[inactive], nil
	}
	used, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return used, stat[inactive], err
}

// numbersIn reads a file whose lines are a name and a number of a unit. Other lines are left out.
func numbersIn(file string, unit uint64) (map[string]uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			out[f[0]] = n * unit
		}
	}
	return out, nil
}
