package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/platform"
)

// Files in the run folder, beside one state file per process.
const (
	lockFile      = "supervisor.lock"
	processesFile = "processes.json"
	stoppedFile   = "stopped.json" // what processesFile was, once a Shutdown began
	activeFile    = "supervisor.json"
	standbyFile   = "standby.json"
)

// Options of a supervisor.
type Options struct {
	// RunDir holds the state files; it belongs to the supervisor.
	RunDir string
	// Self is the command line that starts another supervisor with these options.
	Self []string
	// Log receives a standby's output.
	Log string
}

// WriteProcesses sets the list of processes that a supervisor keeps running. It must be called before the supervisor
// starts.
func WriteProcesses(runDir string, processes []Process) error {
	if err := platform.MakeFolder(runDir, platform.Closed); err != nil {
		return err
	}
	data, err := json.MarshalIndent(processes, "", " ")
	if err != nil {
		return err
	}
	if err := noteBoot(runDir); err != nil {
		return err
	}
	return atomicfile.WriteThrough(filepath.Join(runDir, processesFile), data, 0o600)
}

// ReadProcesses returns the list that WriteProcesses wrote.
func ReadProcesses(runDir string) ([]Process, error) { return readList(runDir, processesFile) }

func readList(runDir, name string) ([]Process, error) {
	data, err := os.ReadFile(filepath.Join(runDir, name))
	if err != nil {
		return nil, err
	}
	var processes []Process
	return processes, json.Unmarshal(data, &processes)
}

// Run waits until it is the only supervisor of the folder, then keeps the processes running until ctx ends. It leaves
// them running: ending them is Shutdown's work.
func Run(ctx context.Context, o Options) error {
	lock, err := openLock(o.RunDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := acquire(ctx, lock); err != nil {
		return err
	}

	// A Shutdown that began in the meantime has removed the list: then there is nothing to supervise.
	processes, err := ReadProcesses(o.RunDir)
	if err != nil {
		return fmt.Errorf("reading the list of processes: %w", err)
	}
	if err := noteBoot(o.RunDir); err != nil {
		return err
	}
	if err := writeSelf(filepath.Join(o.RunDir, activeFile)); err != nil {
		return err
	}

	klog.FromContext(ctx).Info("Supervising", "processes", len(processes), "folder", o.RunDir)
	var wg sync.WaitGroup
	for _, p := range processes {
		wg.Go(func() { newKeeper(o.RunDir, p).run(ctx) })
	}
	wg.Go(func() { keepStandby(ctx, o) })
	wg.Wait()
	return noteLeft(o.RunDir)
}

// openLock opens the lock file of a run folder; the folder must be there.
func openLock(runDir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(runDir, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
}

// acquire waits for the lock or the end of ctx. A blocking flock cannot be interrupted, so acquire tries it again and
// again.
func acquire(ctx context.Context, lock *os.File) error {
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("locking %s: %w", lock.Name(), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func writeSelf(file string) error {
	return writePID(file, "supervisor", os.Getpid())
}

func writePID(file, name string, pid int) error {
	ticks, _ := startTicks(pid)
	k := keeper{file: file, state: State{Name: name, Phase: "running", PID: pid, StartTicks: ticks,
		Started: time.Now()}}
	return k.save()
}

// keepStandby makes sure that a second supervisor waits for the lock.
func keepStandby(ctx context.Context, o Options) {
	logger := klog.FromContext(ctx)

	file := filepath.Join(o.RunDir, standbyFile)
	for ctx.Err() == nil {
		s, err := readState(file)
		if err != nil || !s.Alive() || s.PID == os.Getpid() {
			pid, err := Spawn(o)
			if err == nil {
				err = writePID(file, "standby", pid)
			}
			if err != nil {
				logger.Error(err, "Starting the standby supervisor")
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// Spawn starts a supervisor that does not depend on this process, and returns its pid.
func Spawn(o Options) (int, error) {
	log, err := openLog(o.Log)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(o.Self[0], o.Self[1:]...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", o.Self[0], err)
	}
	go func() { _ = cmd.Wait() }()
	return cmd.Process.Pid, nil
}

// Supervisors returns the active supervisor and its standby; one that does not run has no PID.
func Supervisors(runDir string) (active, standby State) {
	active, _ = readState(filepath.Join(runDir, activeFile))
	standby, _ = readState(filepath.Join(runDir, standbyFile))
	if !active.Alive() {
		active = State{}
	}
	if !standby.Alive() {
		standby = State{}
	}
	return active, standby
}

// States lists the processes' states, sorted by name. A process that should run by its state file and does not has the
// phase "dead".
func States(runDir string) ([]State, error) {
	processes, err := readList(runDir, processesFile)
	if errors.Is(err, os.ErrNotExist) {
		processes, err = readList(runDir, stoppedFile)
	}
	if err != nil {
		return nil, err
	}

	states := make([]State, 0, len(processes))
	for _, p := range processes {
		s, err := readState(stateFile(runDir, p.Name))
		if err != nil {
			s = State{Name: p.Name, Node: p.Node, Phase: "waiting"}
		}
		if s.Phase == "running" && !s.Alive() {
			s.Phase, s.PID = "dead", 0
		}
		states = append(states, s)
	}
	sort.Slice(states, func(i, j int) bool { return states[i].Name < states[j].Name })
	return states, nil
}

// Shutdown ends the supervisors first, then every process, in parallel: TERM, and KILL after grace. Before that it
// removes the list of processes, so that a supervisor that is just starting does not start them again.
func Shutdown(runDir string, grace time.Duration) error {
	err := os.Rename(filepath.Join(runDir, processesFile), filepath.Join(runDir, stoppedFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := stopSupervisors(runDir); err != nil {
		return err
	}

	states, err := States(runDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	errs := make([]error, len(states))
	var wg sync.WaitGroup
	for i, s := range states {
		wg.Go(func() { errs[i] = s.Stop(grace) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stopSupervisors ends the active supervisor and its standby, and returns once the lock is free.
func stopSupervisors(runDir string) error {
	lock, err := openLock(runDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // no folder, no supervisor
	}
	if err != nil {
		return err
	}
	defer lock.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	for {
		active, standby := Supervisors(runDir)
		if err := errors.Join(standby.Stop(2*time.Second), active.Stop(5*time.Second)); err != nil {
			return err
		}
		try, stop := context.WithTimeout(ctx, 250*time.Millisecond)
		err := acquire(try, lock)
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("a supervisor of %s does not end: %w", runDir, err)
		}
	}
}
