package main

import (
	"time"

	"golang.org/x/sys/windows"
)

// cpuTime is the processor time of this process; 0 if it cannot be read. Windows counts in units of
// 100 ns.
func cpuTime() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user); err != nil {
		return 0
	}
	ticks := func(t windows.Filetime) time.Duration {
		return time.Duration(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime)) * 100
	}
	return ticks(kernel) + ticks(user)
}
