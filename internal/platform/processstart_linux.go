package platform

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// ProcessStart returns when a process has started, in clock ticks since the machine's start: field 22 of
// proc_pid_stat(5). The name of the program, which is in parentheses, may contain anything, so the last one ends it.
// One that has ended and is not reaped yet is not there.
func ProcessStart(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("process %d: its stat has %d fields after its name", pid, len(fields))
	}
	if fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return 0, fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
