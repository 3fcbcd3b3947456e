package platform

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
)

// ProcessStarted returns when a process started.
func ProcessStarted(pid uint32) (time.Time, error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return time.Time{}, fmt.Errorf("opening process %d: %w", pid, err)
	}
	var created, exited, kernel, user windows.Filetime
	err = errors.Join(windows.GetProcessTimes(h, &created, &exited, &kernel, &user), windows.CloseHandle(h))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the times of process %d: %w", pid, err)
	}
	return time.Unix(0, created.Nanoseconds()), nil
}
