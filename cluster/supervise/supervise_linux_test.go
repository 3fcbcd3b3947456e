package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/wait"
)

// world is a run folder with a supervisor in this process. Its standby is a program that ends at once: these tests
// play the take-over themselves.
type world struct {
	t    *testing.T
	dir  string
	stop func()
}

func newWorld(t *testing.T, processes ...Process) *world {
	w := &world{t: t, dir: t.TempDir()}
	for i := range processes {
		processes[i].Log = filepath.Join(w.dir, "log")
	}
	if err := WriteProcesses(w.dir, processes); err != nil {
		t.Fatal(err)
	}

	w.supervise()
	t.Cleanup(func() {
		w.stop()
		states, _ := States(w.dir)
		for _, s := range states {
			if err := s.Stop(0); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

func (w *world) supervise() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := Run(ctx, Options{RunDir: w.dir, Self: []string{"/bin/true"},
			Log: filepath.Join(w.dir, "standby.log")}); err != nil {
			w.t.Error(err)
		}
	}()
	w.stop = func() { cancel(); <-done }
}

// state waits until the process is as wanted.
func (w *world) state(name string, ok func(State) bool) (found State) {
	w.t.Helper()
	wait.NoError(w.t, 10*time.Second, "the wanted state of "+name, func() error {
		states, err := States(w.dir)
		if err != nil {
			return err
		}
		for _, s := range states {
			if s.Name == name && ok(s) {
				found = s
				return nil
			}
		}
		return fmt.Errorf("the states are %+v", states)
	})
	return found
}

func running(s State) bool { return s.Phase == "running" && s.Alive() }

func sleeper(name string) Process {
	return Process{Name: name, Path: "/bin/sleep", Args: []string{"60"}}
}

func TestKilledProcessComesBack(t *testing.T) {
	w := newWorld(t, sleeper("a"))
	first := w.state("a", running)
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := w.state("a", func(s State) bool { return running(s) && s.PID != first.PID })
	if second.Restarts != 1 {
		t.Errorf("restarts %d, want 1", second.Restarts)
	}
}

func TestSuccessorAdopts(t *testing.T) {
	w := newWorld(t, sleeper("a"))
	first := w.state("a", running)
	w.stop() // the processes stay
	if !first.Alive() {
		t.Fatal("the process ended with its supervisor")
	}
	w.supervise()
	if err := unix.Kill(first.PID, 0); err != nil {
		t.Fatal(err)
	}
	if again := w.state("a", running); again.PID != first.PID || again.Restarts != 0 {
		t.Errorf("adopted %+v, want pid %d and no restart", again, first.PID)
	}
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil { // an adopted one is watched as well
		t.Fatal(err)
	}
	w.state("a", func(s State) bool { return running(s) && s.PID != first.PID && s.Restarts == 1 })
}

func TestWaitsForItsCondition(t *testing.T) {
	file := filepath.Join(t.TempDir(), "there")
	p := sleeper("a")
	p.WaitFor = []Condition{{Path: file}}
	w := newWorld(t, p)
	if s := w.state("a", func(s State) bool { return s.Phase == "waiting" && s.Waiting == file }); s.PID != 0 {
		t.Errorf("started with pid %d before its condition holds", s.PID)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.state("a", running)
}

// A process with a host name sees that name, and the machine keeps its own.
func TestHostname(t *testing.T) {
	file := filepath.Join(t.TempDir(), "name")
	p := sleeper("a")
	p.Hostname, p.Path, p.Args = "lin09", "/bin/sh", []string{"-c",
		`cat /proc/sys/kernel/hostname > "$0"; exec sleep 1000`, file}
	w := newWorld(t, p)
	w.state("a", running)
	if err := wait.For(t.Context(), 10*time.Second, "the name in the file", func(context.Context) error {
		data, err := os.ReadFile(file)
		if err == nil && string(data) != "lin09\n" {
			err = fmt.Errorf("it is %q", data)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if name, err := os.Hostname(); err != nil || name == "lin09" {
		t.Errorf("the machine is called %s: %v", name, err)
	}
}

// What runs before a process must succeed before it, and what follows it, starts.
func TestBefore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "there")
	p, follower := sleeper("a"), sleeper("b")
	p.Before, follower.Follows = []string{"/bin/sh", "-c", "test -e " + file}, "a"
	w := newWorld(t, p, follower)
	if s := w.state("a", func(s State) bool { return s.Restarts > 0 && s.Phase == "backoff" }); s.PID != 0 ||
		s.LastExit == "" {
		t.Errorf("started all the same, or without a reason: %+v", s)
	}
	w.state("b", func(s State) bool { return s.Phase == "waiting" && s.PID == 0 })
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a := w.state("a", running)
	if b := w.state("b", running); b.Leader != a.PID {
		t.Errorf("b follows pid %d, want %d", b.Leader, a.PID)
	}
}

func TestFollowerIsStartedAnew(t *testing.T) {
	follower := sleeper("b")
	follower.Follows = "a"
	w := newWorld(t, follower, sleeper("a"))
	a, b := w.state("a", running), w.state("b", running)
	if b.Leader != a.PID {
		t.Errorf("b follows pid %d, want %d", b.Leader, a.PID)
	}
	if err := unix.Kill(a.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.state("b", func(s State) bool { return running(s) && s.PID != b.PID && s.Leader != a.PID })
}

// While a node is held, its processes that end stay away, and those of others come back.
func TestHold(t *testing.T) {
	held, other := sleeper("n/a"), sleeper("m/a")
	held.Node, other.Node = "n", "m"
	w := newWorld(t, held, other)
	a, b := w.state("n/a", running), w.state("m/a", running)
	release, err := Hold(t.Context(), w.dir, "n")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{a.PID, b.PID} {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}

	w.state("m/a", func(s State) bool { return running(s) && s.PID != b.PID })
	if s := w.state("n/a", func(s State) bool { return s.Phase == "waiting" }); s.PID != 0 {
		t.Errorf("started while it is held: %+v", s)
	}
	release()
	w.state("n/a", func(s State) bool { return running(s) && s.PID != a.PID })
}

func TestHoldWithoutSupervisor(t *testing.T) {
	if _, err := Hold(t.Context(), t.TempDir(), ""); err == nil {
		t.Error("a folder without a supervisor can be held")
	}
}

// What an installation waits for does not keep a later start back.
func TestWaitsOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "there")
	p := sleeper("a")
	p.WaitOnce = []Condition{{Path: file}}
	w := newWorld(t, p)
	w.state("a", func(s State) bool { return s.Phase == "waiting" && s.Waiting == file })
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	first := w.state("a", running)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.state("a", func(s State) bool { return running(s) && s.PID != first.PID })
}

func TestProgramThatDoesNotExist(t *testing.T) {
	w := newWorld(t, Process{Name: "a", Path: "/no/such/program"})
	s := w.state("a", func(s State) bool { return s.Restarts > 0 })
	if s.LastExit == "" {
		t.Errorf("no reason in %+v", s)
	}
}

func TestShutdown(t *testing.T) {
	w := newWorld(t, sleeper("a"), sleeper("b"))
	a, b := w.state("a", running), w.state("b", running)
	w.stop()
	// The supervisor of this test is this process: Shutdown must not find it.
	if err := os.Remove(filepath.Join(w.dir, activeFile)); err != nil {
		t.Fatal(err)
	}
	if err := Shutdown(w.dir, time.Second); err != nil {
		t.Fatal(err)
	}
	if a.Alive() || b.Alive() {
		t.Errorf("still alive after shutdown: %v %v", a.Alive(), b.Alive())
	}
	err := Run(t.Context(), Options{RunDir: w.dir, Self: []string{"/bin/true"}, Log: filepath.Join(w.dir, "late.log")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a supervisor that comes late gives %v, want that there is no list of processes", err)
	}
}

func TestEndsInARow(t *testing.T) {
	for _, c := range []struct {
		before int
		ran    time.Duration
		want   int
		pause  time.Duration
	}{
		{0, time.Second, 1, 100 * time.Millisecond},
		{1, time.Second, 2, 200 * time.Millisecond},
		{9, time.Second, 10, 5 * time.Second},
		{9, healthyAfter, 1, 100 * time.Millisecond},
	} {
		got := endsInARow(c.before, c.ran)
		if pause := backoff.Wait(got); got != c.want || pause != c.pause {
			t.Errorf("after %d, ran %s: %d and %s, want %d and %s", c.before, c.ran, got, pause, c.want, c.pause)
		}
	}
}
