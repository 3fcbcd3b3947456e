package platform

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const ticksPerSecond = 100 // USER_HZ, fixed for /proc on all architectures that Go runs on

// ReadUsage reads the usage of the machine, and of the filesystem that root is on.
func ReadUsage(root string) (Usage, error) {
	var u Usage
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, fmt.Errorf("reading processor usage: %w", err)
	}
	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		if len(f) > 8 && f[0] == "cpu" { // user nice system idle iowait irq softirq steal
			for i, text := range f[1:9] {
				if n, err := strconv.ParseUint(text, 10, 64); err == nil && i != 3 && i != 4 {
					u.CPUNanoseconds += n * (1e9 / ticksPerSecond)
				}
			}
		}
		if len(f) == 2 && f[0] == "btime" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				u.Boot = time.Unix(n, 0)
			}
		}
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return u, fmt.Errorf("reading memory usage: %w", err)
	}
	inactive := uint64(0)
	for line := range strings.Lines(string(info)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			u.MemoryTotal = n << 10
		case "MemAvailable:":
			u.MemoryAvailable = n << 10
		case "MemFree:":
			inactive += n << 10
		case "Inactive(file):":
			inactive += n << 10
		}
	}
	u.MemoryWorkingSet = u.MemoryTotal - min(u.MemoryTotal, inactive)
	if root == "" {
		root = "/"
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return u, fmt.Errorf("reading disk usage of %s: %w", root, err)
	}
	size := uint64(fs.Bsize)
	u.DiskTotal, u.DiskFree, u.DiskAvailable = fs.Blocks*size, fs.Bfree*size, fs.Bavail*size
	u.Inodes, u.InodesFree = fs.Files, fs.Ffree
	return u, nil
}
