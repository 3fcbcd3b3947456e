package scm

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/bubble"

	"golang.org/x/sys/unix"
)

// fake starts processes that are services as their command line says: "service", "silent" (never answers), "plain"
// (ends at once), "error" (says that it stopped with an error), "deaf" (does not stop when Windows shuts down),
// "hasty" (says that it stopped without having asked for its start, and ends).
type fake struct {
	m     *Manager
	order []string

	mu        sync.Mutex
	launched  []string // names in the order in which they were started
	processes map[string]*fakeProcess
	told      []string // controls in the order in which they came: NAME CONTROL
}

type fakeProcess struct {
	pid  int
	done chan struct{}
	once sync.Once
}

func (p *fakeProcess) PID() int              { return p.pid }
func (p *fakeProcess) Done() <-chan struct{} { return p.done }
func (p *fakeProcess) Kill()                 { p.once.Do(func() { close(p.done) }) }

func (f *fake) PreshutdownOrder() []string { return f.order }

func (f *fake) Alive(pid int) bool { return unix.Kill(pid, 0) == nil }

func (f *fake) Launch(_, line string) (Process, error) {
	how, name, _ := strings.Cut(line, " ")
	if how == "missing" {
		return nil, FileNotFound
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &fakeProcess{pid: 100 + len(f.launched), done: make(chan struct{})}
	f.launched = append(f.launched, name)
	f.processes[name] = p
	if how == "plain" {
		p.Kill()
	} else if how == "hasty" {
		go func() {
			time.Sleep(time.Second)
			f.m.Report(p.pid, uint32(p.pid), Status{State: Stopped})
			p.Kill()
		}()
	} else if how != "silent" {
		go f.serve(p, how, name)
	}
	return p, nil
}

// serve is a process that is a service.
func (f *fake) serve(p *fakeProcess, how, name string) {
	time.Sleep(time.Second) // its start takes a while; the clock is the bubble's
	_, d, code := f.m.Dispatch(p.pid)
	if code != OK {
		return
	}
	defer close(d.gone)
	report := func(s State, exit Code) {
		f.m.Report(p.pid, uint32(p.pid), Status{State: s, Exit: exit, Accepts: acceptStop | acceptPreshutdown})
	}
	for {
		select {
		case <-p.done:
			return
		case e := <-d.events:
			if e.kind == wire.SCMEnd {
				p.Kill()
				return
			}
			e.done <- OK
			if e.kind == wire.SCMStart {
				report(Running, OK)
				if how == "error" {
					go report(Stopped, SpecificError)
				}
				continue
			}

			f.mu.Lock()
			f.told = append(f.told, fmt.Sprint(name, " ", e.control))
			f.mu.Unlock()
			if e.control == controlStop || e.control == controlPreshutdown && how != "deaf" {
				go report(Stopped, OK)
			}
		}
	}
}

// world makes a manager in a bubble of time and services from lines: NAME HOW [after NAME,…].
func world(t *testing.T, lines ...string) (*Manager, *fake) {
	f := &fake{processes: map[string]*fakeProcess{}}
	m, err := New(Options{Dir: t.TempDir(), Launcher: f})
	if err != nil {
		t.Fatal(err)
	}
	f.m = m
	t.Cleanup(func() {
		m.mu.Lock()
		m.down = true // nothing is started again
		m.mu.Unlock()
		f.mu.Lock()
		for _, p := range f.processes {
			p.Kill()
		}
		f.mu.Unlock()
		bubble.Wait() // what ends is recorded in the folder, which the test removes next
	})

	for _, line := range lines {
		words := strings.Fields(line)
		c := Config{Name: words[0], Path: words[1] + " " + words[0], Type: ownProcess, Start: StartAutomatic}
		if len(words) > 3 {
			c.Dependencies = strings.Split(words[3], ",")
		}
		if code := m.Create(c, 1); code != OK {
			t.Fatalf("%s: %v", line, code)
		}
	}
	return m, f
}

func (f *fake) state(name string) State {
	l, _ := f.m.Get(name)
	return l.Status.State
}

// TestOrder: services start after those that they depend on, whatever their names, and a dependency is not stopped
// before them.
func TestOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "zz-base service", "aa-top service after zz-base", "middle service",
			"gone service after nobody")
		m.Boot()
		bubble.Wait()
		if want := []string{"zz-base", "aa-top", "middle"}; !reflect.DeepEqual(f.launched, want) {
			t.Errorf("started %v, want %v", f.launched, want)
		}
		if code := m.Start("gone", nil); code != DependencyMissing {
			t.Errorf("a dependency that does not exist: %v", code)
		}
		if _, code := m.Control("ZZ-Base", controlStop); code != DependentsRunning {
			t.Errorf("stopping what another needs: %v", code)
		}

		for _, name := range []string{"aa-top", "zz-base"} {
			if _, code := m.Control(name, controlStop); code != OK {
				t.Errorf("stopping %s: %v", name, code)
			}
			bubble.Wait()
		}
		if f.state("zz-base") != Stopped || f.state("middle") != Running {
			t.Error("after the stop")
		}
		if _, code := m.Control("zz-base", controlStop); code != NotActive {
			t.Errorf("stopping it again: %v", code)
		}
	})
}

// TestNoAnswer: a process has 30 s to be a service, and one that ends before fails at once; neither is started again.
func TestNoAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "silent silent", "plain plain", "missing missing")
		for name, want := range map[string]struct {
			code Code
			took time.Duration
		}{"silent": {RequestTimeout, 30 * time.Second}, "plain": {RequestTimeout, 0}, "missing": {FileNotFound, 0}} {
			recovering(t, m, name)
			start := time.Now()
			if code := m.Start(name, nil); code != want.code || time.Since(start) != want.took {
				t.Errorf("%s: %v after %v, want %v after %v", name, code, time.Since(start), want.code, want.took)
			}
		}
		time.Sleep(time.Hour)
		if len(f.launched) != 2 {
			t.Errorf("started %v, want each once", f.launched)
		}
	})
}

func recovering(t *testing.T, m *Manager, name string) {
	t.Helper()
	if code := m.Change(name, func(c *Config) Code {
		c.Failure.Reset = 600
		c.Failure.Actions = []Action{{restartAction, 1000}, {restartAction, 5000}, {restartAction, 15000}}
		return OK
	}); code != OK {
		t.Fatal(code)
	}
}

// TestCrash: a process that ends without a word is started again after the delay of the failure's number; the count
// begins anew after the reset time.
func TestCrash(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "s service")
		recovering(t, m, "s")
		m.Start("s", nil)
		crash := func(delay time.Duration) {
			t.Helper()
			bubble.Wait()
			if f.state("s") != Running {
				t.Fatal("it does not run")
			}
			f.processes["s"].Kill()
			bubble.Wait()
			if l, _ := m.Get("s"); l.Status.State != Stopped || l.Status.Exit != ProcessAborted {
				t.Fatalf("after the crash: %+v", l.Status)
			}
			time.Sleep(delay - time.Millisecond)
			if f.state("s") != Stopped {
				t.Errorf("it was started before %v", delay)
			}
			time.Sleep(2*time.Second + time.Millisecond)
		}

		for _, delay := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 15 * time.Second} {
			crash(delay)
		}
		time.Sleep(10 * time.Minute)
		crash(time.Second)
	})
}

// TestErrorExit: a service that says that it stopped with an error has not failed, unless its failure flag is set.
func TestErrorExit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "s error")
		recovering(t, m, "s")
		m.Start("s", nil)
		time.Sleep(time.Hour)
		if len(f.launched) != 1 {
			t.Errorf("without the flag it was started %d times", len(f.launched))
		}
		m.Change("s", func(c *Config) Code { c.Failure.NonCrash = true; return OK })
		m.Start("s", nil)
		time.Sleep(10 * time.Second)
		if len(f.launched) < 4 {
			t.Errorf("with the flag it was started %d times", len(f.launched))
		}
	})
}

// TestStoppedAtOnce: a process may say that its service has stopped before it asks for its start. Nothing waits for it
// then: the bubble fails if a goroutine is left.
func TestStoppedAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "s hasty")
		if code := m.Start("s", nil); code != RequestTimeout {
			t.Errorf("the start returned %v", code)
		}
		if f.state("s") != Stopped {
			t.Errorf("the service is %v", f.state("s"))
		}
	})
}

// TestDelayed: delayed services start two minutes after the others.
func TestDelayed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "later service", "now service")
		m.Change("later", func(c *Config) Code { c.Delayed = true; return OK })
		m.Boot()
		time.Sleep(119 * time.Second)
		if !slices.Equal(f.launched, []string{"now"}) {
			t.Errorf("before two minutes: %v", f.launched)
		}
		time.Sleep(10 * time.Second)
		if !slices.Equal(f.launched, []string{"now", "later"}) {
			t.Errorf("after two minutes: %v", f.launched)
		}
	})
}

// TestShutdown: services are told in the registry's order, then the others; one that does not stop has the time of its
// configuration and is killed; nothing starts again.
func TestShutdown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "a service", "b service", "c deaf")
		f.order = []string{"nobody", "B"}
		recovering(t, m, "c")
		m.Boot()
		start := time.Now()
		ended := m.Shutdown()
		if took := time.Since(start); took != defaultPreshutdown {
			t.Errorf("took %v, want the 10 s that Windows gives the one that does not stop", took)
		}
		if f.told[0] != "b 15" || len(f.told) != 3 {
			t.Errorf("told %v, want b first", f.told)
		}
		if i := slices.IndexFunc(ended, func(e Ended) bool { return e.Service == "c" }); i < 0 ||
			ended[i].Phase != "killed" {
			t.Errorf("ended: %+v", ended)
		}
		time.Sleep(time.Hour)
		if len(f.launched) != 3 || m.Start("a", nil) != ShutdownInProgress {
			t.Errorf("started %v, want none again", f.launched)
		}
	})
}

// TestInitiate: a restart comes when its time has come, once; until then it can be taken back. One that cannot begin
// leaves the way free.
func TestInitiate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, _ := world(t)
		r := restarts{m}
		if code := r.initiate(time.Minute, ""); code != NotSupported {
			t.Errorf("a host that cannot be restarted: %v", code)
		}
		began, fails := 0, false
		m.o.Restart = func() error {
			began++
			if fails {
				return errors.New("no")
			}
			return nil
		}

		if code := r.abort(); code != NoShutdown {
			t.Errorf("abort of none: %v", code)
		}
		if code := r.initiate(time.Minute, "why"); code != OK {
			t.Fatal(code)
		}
		if code := r.initiate(time.Second, ""); code != ShutdownScheduled {
			t.Errorf("a second one: %v", code)
		}
		time.Sleep(59 * time.Second)
		if code := r.abort(); code != OK {
			t.Errorf("abort: %v", code)
		}
		time.Sleep(time.Hour)
		if began != 0 {
			t.Error("restarted although it was taken back")
		}

		fails = true
		r.initiate(time.Minute, "")
		time.Sleep(61 * time.Second)
		fails = false
		if code := r.initiate(time.Minute, ""); code != OK || began != 1 {
			t.Errorf("after %d that did not begin: %v", began, code)
		}
		time.Sleep(61 * time.Second)
		if code := r.abort(); code != NoShutdown || began != 2 {
			t.Errorf("abort when it is too late, after %d: %v", began, code)
		}
		m.Shutdown()
		if code := r.initiate(0, ""); code != ShutdownInProgress {
			t.Errorf("while it shuts down: %v", code)
		}
	})
}

// TestRebootAction: a service whose recovery action is a reboot restarts the host.
func TestRebootAction(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, f := world(t, "a service")
		began := 0
		m.o.Restart = func() error { began++; return nil }
		if code := m.Change("a", func(c *Config) Code {
			c.Failure.Actions = []Action{{Type: rebootAction, Delay: 1000}}
			return OK
		}); code != OK {
			t.Fatal(code)
		}
		m.Boot()
		f.processes["a"].Kill()
		time.Sleep(time.Minute)
		if began != 1 {
			t.Errorf("%d restarts", began)
		}
	})
}

// TestDelete: a service that somebody has open is there until that is closed, and its name is not free before.
func TestDelete(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, _ := world(t, "s service")
		again := Config{Name: "S", Path: "service S", Type: ownProcess, Start: StartManual}
		if code := m.Create(again, 1); code != Exists {
			t.Errorf("the name twice: %v", code)
		}
		if code := m.Delete("s"); code != OK {
			t.Fatal(code)
		}
		if code := m.Create(again, 1); code != MarkedForDelete {
			t.Errorf("before it is closed: %v", code)
		}
		m.Close("s", 1)
		if code := m.Create(again, 1); code != OK {
			t.Errorf("after it was closed: %v", code)
		}
	})
}

// TestKept: another manager in the same folder has all that was said, and runs none.
func TestKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, _ := world(t, "s service after base")
		recovering(t, m, "s")
		m.Change("s", func(c *Config) Code { c.Description, c.PreshutdownTimeout = "two\nlines", 40000; return OK })
		other, err := New(m.o)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := m.Get("s")
		if got, code := other.Get("s"); code != OK || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

func TestCommandLines(t *testing.T) {
	for line, want := range map[string][][2]string{
		`"C:\Program Files\x.exe" --a b`: {{`C:\Program Files\x.exe`, `--a b`}},
		`C:\k\x.exe`:                     {{`C:\k\x.exe`, ``}},
		`C:\Program Files\x.exe -a`: {{`C:\Program`, `Files\x.exe -a`}, {`C:\Program Files\x.exe`, `-a`},
			{`C:\Program Files\x.exe -a`, ``}},
	} {
		if got := programs(line); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string][]string{
		`--a "b c" d`: {"--a", "b c", "d"}, `"a\"b"`: {`a"b`}, `C:\dir\ x`: {`C:\dir\`, "x"},
		`"C:\a b\\" y`: {`C:\a b\`, "y"}, `--x=""`: {"--x="}, ``: nil,
	} {
		if got := splitArgs(line); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// FuzzArguments: nothing that a program sends ends the manager.
func FuzzArguments(f *testing.F) {
	f.Add("create", "s", "16\x1f2\x1f1\x1fC:\\x\x1f\x02\x1fa\x1eb\x1e\x1f\x02\x1f\x02\x1f")
	f.Add("change2", "s", "2\x1f600\x1f\x02\x1f\x02\x1f3\x1f1\x1f1000\x1f")
	f.Add("control", "s", "1\x1f")
	f.Fuzz(func(t *testing.T, function, service, args string) {
		m, err := New(Options{Dir: t.TempDir(), Launcher: &fake{processes: map[string]*fakeProcess{}}})
		if err != nil {
			t.Fatal(err)
		}
		if function == "start" {
			return
		}
		m.Create(Config{Name: "s", Path: "missing s", Type: ownProcess, Start: StartManual}, 1)
		(&server{m: m}).call(caller{pid: 1}, wire.Request{Text: [3]string{function, service, args}})
	})
}

func TestFaults(t *testing.T) {
	var f faults
	for _, text := range []string{"create:kubelet:1072:2", "start:*:1053"} {
		fault, err := ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		f.add(fault)
	}
	var got []Code
	for _, call := range [][2]string{{"create", "Kubelet"}, {"create", "other"}, {"create", "kubelet"},
		{"create", "kubelet"}, {"start", "x"}, {"start", "x"}} {
		got = append(got, f.strike(call[0], call[1]))
	}
	if want := []Code{MarkedForDelete, OK, MarkedForDelete, OK, RequestTimeout, OK}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, bad := range []string{"", "create:kubelet", "boot:kubelet:5", "create:kubelet:x", "create:kubelet:0",
		"create:kubelet:5:0"} {
		if _, err := ParseFault(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
