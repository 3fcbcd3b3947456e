package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// used returns the processor time of this process.
func used() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
