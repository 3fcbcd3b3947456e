package main

import (
	"time"

	"golang.org/x/sys/windows"
)

// used returns the processor time of this process.
func used() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ticks := func(f windows.Filetime) time.Duration {
		return time.Duration(uint64(f.HighDateTime)<<32|uint64(f.LowDateTime)) * 100 // of 100 ns
	}
	return ticks(kernel) + ticks(user)
}
