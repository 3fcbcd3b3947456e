package supervise

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

const maxLog = 16 << 20

// keeper keeps one process running until its context ends, and leaves it running then.
type keeper struct {
	process Process
	runDir  string
	file    string // its state file
	state   State
}

func newKeeper(runDir string, p Process) *keeper {
	k := &keeper{process: p, runDir: runDir, file: stateFile(runDir, p.Name)}
	if s, err := readState(k.file); err == nil {
		k.state = s
	}
	k.state.Name, k.state.Node = p.Name, p.Node
	return k
}

func stateFile(runDir, name string) string {
	return filepath.Join(runDir, strings.ReplaceAll(name, "/", "_")+".json")
}

func readState(file string) (State, error) {
	var s State
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// save replaces the state file as a whole, so that a reader or a successor never sees half of it.
func (k *keeper) save() error {
	data, err := json.Marshal(k.state)
	if err != nil {
		return err
	}
	return atomicfile.Write(k.file, data, 0o600)
}

func (k *keeper) enter(ctx context.Context, phase, waiting string) {
	k.state.Phase, k.state.Waiting = phase, waiting
	if err := k.save(); err != nil {
		klog.FromContext(ctx).Error(err, "Keeping the state of a process", "process", k.process.Name)
	}
}

// run keeps one process running until ctx ends. It leaves the process running then, so that the next supervisor adopts
// it. It starts one that ended again after a wait that grows with each end in a row.
func (k *keeper) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("process", k.process.Name)
	ends := 0 // in a row
	if k.state.Phase == "running" && !k.state.Alive() {
		k.state.Restarts++ // it ended while no supervisor ran
	}

	for ctx.Err() == nil {
		if !k.state.Alive() {
			if !k.await(ctx) {
				return
			}
			held, err := k.startUnlessHeld()
			switch {
			case held:
				continue // what it waited for may have ended by now
			case err != nil:
				k.state.LastExit = err.Error()
				logger.Error(err, "Starting a process")
			default:
				logger.Info("Started a process", "pid", k.state.PID)
			}
		} else {
			logger.Info("Adopted a running process", "pid", k.state.PID)
		}
		if k.state.PID > 0 {
			k.enter(ctx, "running", "")
			for !WaitEnd(k.state.PID, time.Second) {
				if ctx.Err() != nil {
					return
				}
				if k.leaderChanged() {
					logger.Info("Killing a process that lost the one it follows", "follows", k.process.Follows)
					if err := k.state.Stop(0); err != nil {
						logger.Error(err, "Killing a process")
					}
				}
			}
			logger.Info("A process ended", "pid", k.state.PID, "exit", k.state.LastExit)
		}
		if ctx.Err() != nil {
			return
		}
		k.state.Restarts++
		ends = endsInARow(ends, time.Since(k.state.Started))
		k.state.PID = 0
		k.enter(ctx, "backoff", "")
		select {
		case <-time.After(backoff.Wait(ends)):
		case <-ctx.Done():
		}
	}
}

// conditions are those of the next start.
func (k *keeper) conditions() []Condition {
	if !k.state.Started.IsZero() {
		return k.process.WaitFor
	}
	return append(slices.Clone(k.process.WaitOnce), k.process.WaitFor...)
}

// startUnlessHeld starts the process, or reports that a Hold is in force.
func (k *keeper) startUnlessHeld() (held bool, err error) {
	done, ok, err := k.mayStart()
	if err != nil || !ok {
		return err == nil, err
	}
	defer done()
	return false, k.start()
}

// held waits for the end of a Hold, and returns false if the context ends first.
func (k *keeper) held(ctx context.Context) bool {
	for first := true; ; first = false {
		done, ok, err := k.mayStart()
		if ok {
			done()
		}
		if ok || err != nil { // an error shows again at the start
			return ctx.Err() == nil
		}
		if first {
			k.enter(ctx, "waiting", "the end of a reboot")
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// await returns true once no Hold is in force and all conditions of the process hold, and false if the context ends
// first.
func (k *keeper) await(ctx context.Context) bool {
	if !k.held(ctx) {
		return false
	}
	for _, c := range k.conditions() {
		if !k.until(ctx, c.String(), c.Holds) {
			return false
		}
	}
	if k.process.Follows == "" {
		return ctx.Err() == nil
	}
	return k.until(ctx, k.process.Follows, func() bool {
		k.state.Leader = k.leader()
		return k.state.Leader > 0
	})
}

// until returns true once holds does, and false if ctx ends first. The pause between two tries is an eighth of
// the time waited so far, at least 50 ms and at most 2 s: a long wait then takes little of the processor.
func (k *keeper) until(ctx context.Context, waiting string, holds func() bool) bool {
	began := time.Now()
	for first := true; !holds(); first = false {
		if first {
			k.enter(ctx, "waiting", waiting)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(max(50*time.Millisecond, time.Since(began)/8), 2*time.Second)):
		}
	}
	return true
}

// leader returns the pid of the followed process, or 0 while that does not run.
func (k *keeper) leader() int {
	s, err := readState(stateFile(k.runDir, k.process.Follows))
	if err != nil || !s.Alive() {
		return 0
	}
	return s.PID
}

func (k *keeper) leaderChanged() bool {
	return k.process.Follows != "" && k.leader() != k.state.Leader
}

// start starts the process in a session of its own, so that no signal meant for the supervisor reaches it.
func (k *keeper) start() error {
	p := k.process
	k.state.PID, k.state.Started = 0, time.Now()
	for _, f := range p.Removes {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}

	log, err := openLog(p.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := p.prepare(log); err != nil {
		return err
	}

	cmd := p.command()
	cmd.Dir = p.Dir
	cmd.Env = append(slices.Clone(environment), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if p.Box != "" && !p.MakesBox {
		err = confine.Start(context.Background(), p.Box, cmd)
	} else {
		cmd.Dir = cmp.Or(p.Dir, "/")
		err = platform.StartInNetns(p.Netns, cmd)
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}

	k.state.PID = cmd.Process.Pid
	k.state.StartTicks, _ = startTicks(cmd.Process.Pid)
	go func() { _ = cmd.Wait() }() // reaps it; its end is seen through the pidfd
	return nil
}

// command is the process's command, in a session of its own. A host name is set by a shell that the program then
// replaces: Go cannot do it between the start of a process and its program.
func (p Process) command() *exec.Cmd {
	attributes := &syscall.SysProcAttr{Setsid: true}
	cmd := exec.Command(p.Path, p.Args...)
	if p.Hostname != "" {
		attributes.Cloneflags = syscall.CLONE_NEWUTS
		cmd = exec.Command("/bin/sh",
			append([]string{"-c", `echo "$0" > /proc/sys/kernel/hostname && exec "$@"`, p.Hostname, p.Path},
				p.Args...)...)
	}
	if p.MakesBox {
		attributes.Cloneflags |= confine.CloneFlags
	}
	cmd.SysProcAttr = attributes
	return cmd
}

// environment is what every program has.
var environment = append(slow.Environment(),
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8")

// prepareLimit bounds what runs before a process.
const prepareLimit = 30 * time.Second

// prepare runs what must succeed before the process starts.
func (p Process) prepare(log *os.File) error {
	if len(p.Before) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), slow.Limit(prepareLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Before[0], p.Before[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", environment, log, log
	err := platform.StartInNetns(p.Netns, cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("before starting %s: %s: %w", p.Name, strings.Join(p.Before, " "), err)
	}
	return nil
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil && st.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
