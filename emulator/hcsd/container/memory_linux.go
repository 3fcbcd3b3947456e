package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryKills counts the processes that Linux has killed because of the memory limit of the container that a process
// is in. 0 if it is not known: then no program is taken for one of them.
func (p *Process) MemoryKills() uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.Pid))
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
		if kills, ok := ReadCounter(file, "oom_kill"); ok {
			return kills
		}
	}
	return 0
}

// ReadCounter reads the number behind a word at the start of a line.
func ReadCounter(file, name string) (uint64, bool) {
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
