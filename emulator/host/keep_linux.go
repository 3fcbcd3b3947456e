package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// Keep runs a Windows program of the host with this process's stdio and terminal, and returns its exit code. If SIGTERM, SIGHUP or SIGQUIT
// comes to this process, the program ends with everything that it started, which would hold the caller's output otherwise. What it has
// started goes on if it ends by itself, as on Windows. An interruption is passed on.
func Keep(h Host, env []string, name string, args ...string) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	cmd, err := h.Program(context.Background(), name, args...)
	if err != nil {
		return 0, err
	}
	if err := h.boot(); err != nil {
		return 0, err
	}
	if term, ok := os.LookupEnv("TERM"); ok {
		cmd.Env = append(cmd.Env, "TERM="+term)
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdin, os.Stdout, os.Stderr, 0

	// Wine forks twice, so that what a program starts is nobody's child. All of it becomes ours.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("running %s on host %s: %w", name, h.Name, err)
	}
	if err := platform.StartInNetns(platform.NetnsPath(h.Netns), cmd); err != nil {
		return 0, fmt.Errorf("running %s on host %s: %w", name, h.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, fmt.Errorf("running %s on host %s: %w", name, h.Name, err)
			}
			return exitCode(cmd.ProcessState), nil
		case s := <-signals:
			if s == unix.SIGINT {
				if !FromTerminal() {
					_ = cmd.Process.Signal(s) // it may have ended
				}
				continue
			}
			return ofSignal(s), endDescendants(10 * time.Second)
		}
	}
}

// exitCode is the exit code of a process as a shell says it.
func exitCode(p *os.ProcessState) int {
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return ofSignal(status.Signal())
	}
	return p.ExitCode()
}

// ofSignal is the exit code by which a shell names a signal that has ended a process.
func ofSignal(s os.Signal) int {
	n, ok := s.(syscall.Signal)
	if !ok {
		return 1
	}
	return 128 + int(n)
}

// FromTerminal reports whether an interruption of this process comes from its terminal, which sends it to all processes of its group.
func FromTerminal() bool {
	for fd := range 3 {
		if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			return group == unix.Getpgrp()
		}
	}
	return false
}

// endDescendants kills what descends from this process until there is nothing, and what they leave while they end.
func endDescendants(limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		pids, err := descendants(os.Getpid())
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("ending what a program has started: %v do not end", pids)
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("ending process %d: %w", pid, err)
			}
		}
	}
}

// descendants are the processes that descend from one, without those that have ended.
func descendants(of int) (pids []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		text := string(data)
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:]) // state, parent, …
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, err2 := strconv.Atoi(fields[1])
		if err1 == nil && err2 == nil {
			children[parent] = append(children[parent], pid)
		}
	}

	for next := []int{of}; len(next) > 0; next = next[1:] {
		pids = append(pids, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return pids, nil
}
