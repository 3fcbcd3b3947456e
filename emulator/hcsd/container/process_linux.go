package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a process of Linux. Its start time tells it from a later one with the same pid.
type Process struct {
	Pid   int
	Start uint64 // in clock ticks since the machine's start
}

// ProcessOf describes a process that runs.
func ProcessOf(pid int) (Process, error) {
	start, err := startTime(pid)
	return Process{pid, start}, err
}

// Fields of proc_pid_stat(5), as it numbers them.
const (
	fieldState  = 3
	fieldUser   = 14
	fieldKernel = 15
	fieldStart  = 22
)

// stat holds the fields of /proc/PID/stat from the third, the state, on.
type stat []string

// statOf reads /proc/PID/stat. Field 2, the name of the program, may contain anything, so the last parenthesis ends it.
func statOf(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= fieldStart-fieldState {
		return nil, fmt.Errorf("process %d: its stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// number returns the value of a numeric field, which is given by its number in proc_pid_stat(5).
func (s stat) number(field int) uint64 {
	n, _ := strconv.ParseUint(s[field-fieldState], 10, 64) // the kernel writes numbers
	return n
}

// startTime returns when a process has started. One that has ended and is not yet taken off the list of processes is
// not there.
func startTime(pid int) (uint64, error) {
	s, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	if s[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	return s.number(fieldStart), nil
}

// Alive reports whether the process runs. A nil one does not.
func (p *Process) Alive() bool {
	if p == nil {
		return false
	}
	start, err := startTime(p.Pid)
	return err == nil && start == p.Start
}

// Wait returns when the process has ended, or with ctx's error.
func (p *Process) Wait(ctx context.Context) error {
	fd, err := unix.PidfdOpen(p.Pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watching process %d: %w", p.Pid, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	// The number may have been given to another process before the descriptor was opened.
	if !p.Alive() {
		return nil
	}

	// The end of ctx closes the file, which ends the Read below.
	stop := context.AfterFunc(ctx, func() { file.Close() })
	defer stop()
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Signal sends a signal. A process that has ended is success.
func (p *Process) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
