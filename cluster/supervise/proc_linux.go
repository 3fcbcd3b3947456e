package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startTicks returns the kernel's start time of a process (field 22 of /proc/PID/stat, proc(5)), or false if the
// process is gone or is a zombie.
func startTicks(pid int) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}

	_, rest, ok := strings.Cut(string(data), ") ")
	if !ok {
		return 0, false
	}

	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "X" {
		return 0, false
	}

	// A main thread that has ended is a zombie while other threads live on: such a process still has to be killed.
	if threads, err := strconv.Atoi(fields[17]); fields[0] == "Z" && (err != nil || threads <= 1) {
		return 0, false
	}

	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	return ticks, err == nil
}

// Alive reports whether the process that s describes still runs. Another process that got its number does not count.
func (s State) Alive() bool {
	ticks, ok := startTicks(s.PID)
	return s.PID > 0 && ok && ticks == s.StartTicks
}

// WaitEnd waits until the process ends, which need not be a child of this one. It returns false if that takes longer
// than wait.
func WaitEnd(pid int, wait time.Duration) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true // ESRCH: gone
	}
	defer unix.Close(fd)

	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n > 0 {
			return true
		}
	}
}

// Stop ends the process that s describes: TERM, then KILL after grace. A process that is gone is success.
func (s State) Stop(grace time.Duration) error {
	if !s.Alive() {
		return nil
	}
	if grace > 0 {
		if err := unix.Kill(s.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stopping %s (pid %d): %w", s.Name, s.PID, err)
		}
		if WaitEnd(s.PID, grace) {
			return nil
		}
	}

	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing %s (pid %d): %w", s.Name, s.PID, err)
	}
	if !WaitEnd(s.PID, 10*time.Second) {
		return fmt.Errorf("killing %s (pid %d): it does not end", s.Name, s.PID)
	}
	return nil
}
