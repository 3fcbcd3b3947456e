package serve

import (
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd"
)

// clockTick is the unit of times in proc_pid_stat(5). USER_HZ is 100 on amd64 and arm64.
const clockTick = 10 * time.Millisecond

// processorTime is time on processors, in ns. Total is exact, and need not be the sum of the others.
type processorTime struct{ total, user, kernel uint64 }

// processorTime returns how long a process has run: no time if it has ended, or is nil.
func (p *process) processorTime() (t processorTime) {
	if p == nil {
		return t
	}
	var spec unix.Timespec
	clock := int32(^p.Pid)<<3 | 2 // the process's CPU clock, as clock_getcpuclockid(3) makes it
	if err := unix.ClockGettime(clock, &spec); err != nil {
		return t
	}
	t.total = uint64(spec.Nano())

	stat, err := statOf(p.Pid)
	if err != nil {
		return t
	}
	t.user, t.kernel = stat.number(fieldUser)*uint64(clockTick), stat.number(fieldKernel)*uint64(clockTick)
	return t
}

// countPrograms subtracts the processor time of a container's wineserver from the time that the container's cgroup has
// counted. A job object of Windows counts the time of its programs, and wineserver is none of them: it does the work
// of Windows' kernel. told holds the figures of the last call. No figure falls below them, although the two times are
// not read at the same moment.
func countPrograms(m *hcsd.Measured, server processorTime, told *processorTime) {
	for _, c := range []struct {
		counted *uint64
		server  uint64
		told    *uint64
	}{{&m.ProcessorNanos, server.total, &told.total}, {&m.UserNanos, server.user, &told.user}, {&m.KernelNanos,
		server.kernel, &told.kernel}} {
		*c.counted = max(*c.counted-min(c.server, *c.counted), *c.told)
		*c.told = *c.counted
	}
}
