package usage

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// OfProcess returns the cgroup of a process, "" if it is not known. With version 1 it is that of its memory.
func (r *Reader) OfProcess(pid int) string {
	if r == nil || pid <= 0 {
		return ""
	}
	text, err := readFile(filepath.Join(r.proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) { // number:controllers:path
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(f[1], ",") {
			if r.unified && f[0] == "0" || !r.unified && controller == "memory" {
				return f[2]
			}
		}
	}
	return ""
}

// Process reads what one process uses, in the form of a cgroup without limits. It returns false if it is gone.
func (r *Reader) Process(pid int) (g Group, ok bool) {
	if r == nil || pid <= 0 {
		return g, false
	}
	dir := filepath.Join(r.proc, strconv.Itoa(pid))
	text, err := readFile(filepath.Join(dir, "stat"))
	if err != nil {
		return g, false
	}
	info, err := os.Stat(dir)
	if err != nil {
		return g, false
	}

	// behind the name, which may have anything in it: field 3 of proc_pid_stat(5) is the first
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 22 {
		return g, false
	}
	n := func(field int) uint64 { v, _ := strconv.ParseUint(f[field-3], 10, 64); return v }
	g.At, g.Created = time.Now(), info.ModTime()
	g.Memory.Faults = n(10)
	g.Memory.MajorFaults = n(12)
	g.CPU.User, g.CPU.System = n(14)*tick, n(15)*tick
	g.CPU.Total = g.CPU.User + g.CPU.System
	g.Memory.RSS = n(24) * uint64(os.Getpagesize())
	g.Memory.Usage = g.Memory.RSS
	g.Memory.WorkingSet = g.Memory.RSS
	return g, true
}
