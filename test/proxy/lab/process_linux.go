package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// Process is a program of the Lab.
type Process struct {
	// Name of the program, and LogFile where its output goes.
	Name, LogFile string
	// Started is when.
	Started time.Time

	cmd  *exec.Cmd
	done chan struct{}
	err  error // after done
}

// start runs a command in a namespace, with its output in a new file.
func start(name, netns, log string, cmd *exec.Cmd) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := platform.StartInNetns(netns, cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{Name: name, LogFile: log, Started: time.Now(), cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID of the process; the Linux one, also of a Windows program.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended, and its exit error.
func (p *Process) Ended() (bool, error) {
	select {
	case <-p.done:
		return true, p.err
	default:
		return false, nil
	}
}

// Stop asks the process to end, and kills it when it has not after 10 s. One that has ended is stopped.
func (p *Process) Stop() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
}

// Kill ends the process as a crash would, and returns when it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *Process) signal(s syscall.Signal) {
	if ended, _ := p.Ended(); !ended {
		_ = p.cmd.Process.Signal(s) // it may have ended meanwhile
	}
}

// Log is all output so far.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// LogTail is the end of the output, at most limit bytes.
func (p *Process) LogTail(limit int) string {
	log := p.Log()
	return log[max(0, len(log)-limit):]
}

// CPU is the processor time that the process has used; 0 for one that has ended.
func (p *Process) CPU() time.Duration {
	f := p.procFields("stat")
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}

// RSS is the memory that the process holds, in bytes; 0 for one that has ended.
func (p *Process) RSS() int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(data))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// procFields are the fields of a line of /proc that follow the name of the program, which may hold anything.
func (p *Process) procFields(file string) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID(), file))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.Fields(rest)
}
