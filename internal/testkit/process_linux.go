package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// Process is a program that a test runs.
type Process struct {
	Name string
	// LogFile is where its output goes, and Started when it was started.
	LogFile string
	Started time.Time

	cmd  *exec.Cmd
	done chan struct{}
	err  error // after done
}

// StartProcess runs a command in a network namespace; its output goes to the end of a file.
func StartProcess(name, netns, log string, cmd *exec.Cmd) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	// an interrupt reaches the test only, which then stops its processes in order
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

// Start runs a program in the World's network namespace; its output goes to NAME.log of the World's folder.
func (h *home) Start(name, program string, args ...string) (*Process, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(h.bin, "bundle")+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	p, err := StartProcess(name, h.Netns(), h.Path(name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	h.procs = append(h.procs, p)
	return p, nil
}

// PID is the process's id; the Linux one, also of a Windows program.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CPU is the processor time that the process has used, in seconds; 0 for one that has ended.
func (p *Process) CPU() float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name before it can contain anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	const ticks = 100 // USER_HZ, the same on every Linux
	return (user + system) / ticks
}

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

// Process returns the newest process that was started under this name, or nil.
func (h *home) Process(name string) *Process {
	for _, p := range slices.Backward(h.procs) {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Stop asks the process to end, and kills it after 15 s. It does nothing if the process has ended.
func (p *Process) Stop() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.Kill()
	}
}

// Kill ends the process as a crash would, and returns when it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal does nothing to a process that has ended.
func (p *Process) signal(s syscall.Signal) {
	if ended, _ := p.Ended(); !ended {
		_ = p.cmd.Process.Signal(s) // it may have ended meanwhile
	}
}

// Logs returns the end of every log, at most limit bytes of each.
func (h *home) Logs(limit int) string {
	var b strings.Builder
	files, _ := filepath.Glob(h.Path("*.log"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "---- %s\n%s\n", filepath.Base(f), data[max(0, len(data)-limit):])
	}
	return b.String()
}

// SaveLogs copies all logs to a folder. It does nothing if dir is empty.
func (h *home) SaveLogs(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keeping logs: %w", err)
	}
	files, err := filepath.Glob(h.Path("*.log"))
	for _, f := range files {
		data, readErr := os.ReadFile(f)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, filepath.Base(f)), data, 0o644))
	}
	return err
}
