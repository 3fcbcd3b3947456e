package container

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"porthole.dev/porthole/emulator/hcsd"
)

// Measure returns what a container uses, and the programs that run in it.
func (r *Runtime) Measure(ctx context.Context, key string) (hcsd.Measured, error) {
	m, err := r.runc.measure(ctx, key)
	if err != nil {
		return m, err
	}
	pids, err := r.Pids(ctx, key)
	if err != nil {
		return m, err
	}
	for _, pid := range pids {
		if p, ok := programOf(pid); ok {
			m.Programs = append(m.Programs, p)
		}
	}
	return m, nil
}

// Pids lists the processes of a container.
func (r *Runtime) Pids(ctx context.Context, key string) ([]int, error) { return r.runc.pids(ctx, key) }

// programOf describes a process of a container. ok is false for one that has ended, and for those of the emulation
// itself.
func programOf(pid int) (p hcsd.Program, ok bool) {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return p, false
	}
	p = hcsd.Program{Pid: uint32(pid), Image: strings.TrimSpace(string(comm))}
	if strings.HasPrefix(p.Image, "wineserver") || strings.HasPrefix(p.Image, "porthole-launch") ||
		strings.HasPrefix(p.Image, "porthole-pipe") {
		return p, false
	}
	if statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		if f := strings.Fields(string(statm)); len(f) > 1 {
			pages, _ := strconv.ParseUint(f[1], 10, 64) // the kernel writes numbers
			p.MemoryBytes = pages * uint64(os.Getpagesize())
		}
	}
	if info, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		p.Begun = info.ModTime()
	}
	return p, true
}
