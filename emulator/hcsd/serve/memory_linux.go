package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// noMemory is the exit code of a program that Linux killed because of its container's memory limit
// (STATUS_COMMITMENT_LIMIT). On Windows an allocation fails, and the program says how it ends: unverified, no. 95.
const noMemory = 0xc000012d

// ofKilled is the largest exit code that Wine gives a program which Linux has killed: Wine 8.0 says 0 of it, and 10.0
// says 1 (both seen). A program that ends so by itself, after Linux has killed another one of its container, is taken
// for one of these.
const ofKilled = 1

// memoryKills counts the processes that Linux has killed because of the memory limit of the container that a process
// is in. 0 if it is not known: then no program is taken for one of them.
func memoryKills(pid int) uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // cgroups(7): number, controllers, path
		if len(parts) < 3 {
			continue
		}
		file := ""
		switch parts[1] {
		case "memory":
			file = filepath.Join("/sys/fs/cgroup/memory", parts[2], "memory.oom_control")
		case "":
			file = filepath.Join("/sys/fs/cgroup", parts[2], "memory.events")
		}
		if kills, ok := readCounter(file, "oom_kill"); ok {
			return kills
		}
	}
	return 0
}

// readCounter reads the number behind a word at the start of a line.
func readCounter(file, name string) (uint64, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
