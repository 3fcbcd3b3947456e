package host

import (
	"context"
	"crypto/rand"
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

// RunOptions say how a program of a host is run.
type RunOptions struct {
	Env  []string // NAME=VALUE, beside those of Windows
	Show []string // folders of this machine, absolute, that programs of the host can read meanwhile
	Out  *os.File // the program's standard output; nil: this process's
}

// runMark is the variable that a program which Run runs has, and all that it starts: Wine passes it on. The value is
// another one each time.
const runMark = "PORTHOLE_RUN="

// Run runs a Windows program of the host with this process's stdio and terminal, and returns its exit code. If
// SIGTERM, SIGHUP or SIGQUIT comes to this process, the program ends with everything that it started, which would hold
// the caller's output otherwise. What it has started goes on if it ends by itself, as on Windows. An interruption is
// passed on.
func Run(h Host, o RunOptions, name string, args ...string) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	ctx := context.Background()
	cmd, err := h.Program(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	if err := h.boot(); err != nil {
		return 0, err
	}
	if term, ok := os.LookupEnv("TERM"); ok {
		cmd.Env = append(cmd.Env, "TERM="+term)
	}
	mark := runMark + rand.Text()
	cmd.Env, cmd.Show = append(append(cmd.Env, o.Env...), mark), append(cmd.Show, o.Show...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 0
	if o.Out != nil {
		cmd.Stdout = o.Out
	}
	if err := cmd.Start(ctx); err != nil {
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
			err := endMarked(mark, 10*time.Second)
			var _ = <-ended // the window that was shown goes; the signal tells how it ended
			return ofSignal(s), err
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

// FromTerminal reports whether an interruption of this process comes from its terminal, which sends it to all
// processes of its group.
func FromTerminal() bool {
	for fd := range 3 {
		if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			return group == unix.Getpgrp()
		}
	}
	return false
}

// endMarked kills the processes that have a variable in their environment until there are none, and what they start
// while they end. It looks at variables and not at parents, because Wine forks twice, and Linux gives orphans of a box
// to the box's first process.
func endMarked(mark string, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		pids, err := marked(mark)
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

// marked lists the processes that have a variable in their environment.
func marked(mark string) (pids []int, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && strings.Contains("\x00"+platform.ProcessEnviron(pid), "\x00"+mark+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
