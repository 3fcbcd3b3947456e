package container

import (
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd"
)

// clockTick is the unit of times in proc_pid_stat(5). USER_HZ is 100 on amd64 and arm64.
const clockTick = 10 * time.Millisecond

// ProcessorTime returns how long a process has run: no time if it has ended, or is nil.
func (p *Process) ProcessorTime() (t hcsd.ProcessorTime) {
	if p == nil {
		return t
	}
	var spec unix.Timespec
	clock := int32(^p.Pid)<<3 | 2 // the process's CPU clock, as clock_getcpuclockid(3) makes it
	if err := unix.ClockGettime(clock, &spec); err != nil {
		return t
	}
	t.Total = uint64(spec.Nano())

	stat, err := statOf(p.Pid)
	if err != nil {
		return t
	}
	t.User = stat.number(fieldUser) * uint64(clockTick)
	t.Kernel = stat.number(fieldKernel) * uint64(clockTick)
	return t
}
