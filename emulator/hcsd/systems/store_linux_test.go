package systems

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
	"porthole.dev/porthole/emulator/hcsd/handles"
)

const document = `{"SchemaVersion":{"Major":2,"Minor":1},"ShouldTerminateOnLastHandleClosed":%v,
	"Container":{"Storage":{"Path":"\\\\?\\Volume{00000000-0000-0000-0000-00000000000a}"}}}`

var (
	at    = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	init1 = container.Process{Pid: 100, Start: 1}
)

// bench is a store, and what it removes.
type bench struct {
	*Store
	t       *testing.T
	handles *handles.Store
	mu      sync.Mutex
	removed []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, handles: handles.New()}
	b.Store = New(filepath.Join(t.TempDir(), "state.json"), b, b.handles)
	return b
}

func (b *bench) Remove(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removed = append(b.removed, key)
	return nil
}

func (b *bench) RemoveProgram(key string, number int) {
	_ = b.Remove(context.Background(), fmt.Sprint(key, "/", number))
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// is fails the test unless an error has the code of another one.
func (b *bench) is(err error, want *hcsd.Error) {
	b.t.Helper()
	if !errors.Is(err, want) {
		b.t.Errorf("%v, want %v", err, want)
	}
}

func (b *bench) create(c handles.Connection, id string, terminate bool) {
	b.t.Helper()
	b.must(b.Create(c, id, fmt.Sprintf(document, terminate), at))
}

// started makes a system that runs.
func (b *bench) started(c handles.Connection, id string, terminate bool) *Instance {
	b.t.Helper()
	b.create(c, id, terminate)
	i, _, done, err := b.Startable(id)
	b.must(err)
	defer done()
	b.must(b.Started(i, init1, at))
	return i
}

// program adds a program to a system.
func (b *bench) program(c handles.Connection, i *Instance, pid int) *Program {
	b.t.Helper()
	p := &Program{Process: container.Process{Pid: pid, Start: 1}}
	p.Number, _ = b.NextProgram(i)
	b.must(b.AddProgram(c, i, p, hcsd.Process{CommandLine: "a"}, at))
	return p
}

// close ends a connection, and returns the pids that are to be killed.
func (b *bench) close(c handles.Connection) (pids []int) {
	for _, p := range b.Released(context.Background(), b.handles.Close(c)) {
		pids = append(pids, p.Pid)
	}
	return pids
}

// onDisk is the state that the next hcsd would read.
func (b *bench) onDisk() string {
	b.t.Helper()
	data, err := os.ReadFile(b.file)
	b.must(err)
	return string(data)
}

// TestIllegal: a call that the state of a system does not allow is refused, and neither the store nor its file changes.
func TestIllegal(t *testing.T) {
	type refusal struct {
		name string
		call func(*bench, *Instance) error
		want *hcsd.Error
	}
	create := func(b *bench, _ *Instance) error { return b.Create(9, "a", fmt.Sprintf(document, false), at) }
	open := func(b *bench, _ *Instance) error { return b.Open(9, handles.Ref{System: "a"}) }
	start := func(b *bench, _ *Instance) error { _, _, _, err := b.Startable("a"); return err }
	started := func(b *bench, i *Instance) error { return b.Started(i, init1, at) }
	running := func(b *bench, _ *Instance) error { _, _, err := b.Running("a"); return err }
	stop := func(b *bench, _ *Instance) error { _, err := b.Stop("a"); return err }
	modify := func(b *bench, _ *Instance) error { _, _, err := b.Modify("a", `{}`); return err }
	add := func(b *bench, i *Instance) error {
		return b.AddProgram(9, i, &Program{Process: container.Process{Pid: 7}}, hcsd.Process{}, at)
	}
	openProgram := func(b *bench, _ *Instance) error { return b.Open(9, handles.Ref{System: "a", Pid: 7}) }
	status := func(b *bench, _ *Instance) error { _, err := b.ProgramStatus("a", 7); return err }
	register := func(b *bench, _ *Instance) error { _, err := b.Register("a", 7); return err }
	bad := func(b *bench, _ *Instance) error { return b.Create(9, "b", `{"SchemaVersion":{"Major":1}}`, at) }

	for state, c := range map[string]struct {
		reach   func(*bench) *Instance
		refused []refusal
	}{
		"nothing": {func(*bench) *Instance { return newInstance("a") }, []refusal{
			{"open", open, hcsd.ErrSystemNotFound}, {"start", start, hcsd.ErrSystemNotFound},
			{"started", started, hcsd.ErrSystemNotFound}, {"running", running, hcsd.ErrSystemNotFound},
			{"stop", stop, hcsd.ErrSystemNotFound}, {"modify", modify, hcsd.ErrSystemNotFound},
			{"add", add, hcsd.ErrAlreadyStopped}, {"open program", openProgram, hcsd.ErrSystemNotFound},
			{"bad document", bad, hcsd.ErrInvalidJSON}}},
		"created": {func(b *bench) *Instance { b.create(1, "a", false); return b.instances["a"] }, []refusal{
			{"create", create, hcsd.ErrSystemExists}, {"running", running, hcsd.ErrInvalidState},
			{"modify", modify, hcsd.ErrInvalidState}, {"add", add, hcsd.ErrInvalidState},
			{"status", status, hcsd.ErrElementNotFound}, {"register", register, hcsd.ErrElementNotFound}}},
		"running": {func(b *bench) *Instance { return b.started(1, "a", false) }, []refusal{
			{"create", create, hcsd.ErrSystemExists}, {"start", start, hcsd.ErrInvalidState},
			{"started", started, hcsd.ErrInvalidState}, {"modify", modify, hcsd.ErrNotSupported},
			{"open program", openProgram, hcsd.ErrElementNotFound}}},
		"stopped": {func(b *bench) *Instance {
			i := b.started(1, "a", false)
			b.must(b.Ended(context.Background(), i))
			return i
		}, []refusal{
			{"create", create, hcsd.ErrSystemExists}, {"open", open, hcsd.ErrSystemNotFound},
			{"start", start, hcsd.ErrAlreadyStopped}, {"started", started, hcsd.ErrAlreadyStopped},
			{"running", running, hcsd.ErrAlreadyStopped}, {"stop", stop, hcsd.ErrAlreadyStopped},
			{"modify", modify, hcsd.ErrAlreadyStopped}, {"add", add, hcsd.ErrAlreadyStopped}}},
	} {
		t.Run(state, func(t *testing.T) {
			b := newBench(t)
			i := c.reach(b)
			b.must(b.save())
			before, keys := b.onDisk(), len(b.instances)
			for _, r := range c.refused {
				t.Run(r.name, func(t *testing.T) {
					b.t = t
					b.is(r.call(b, i), r.want)
					b.must(b.save())
					if now := b.onDisk(); now != before || len(b.instances) != keys {
						t.Errorf("the state has changed from\n%s to\n%s", before, now)
					}
					if last := b.handles.Close(9); last != nil {
						t.Errorf("the caller has got handles: %v", last)
					}
				})
			}
		})
	}
}

// TestUnwritten: a change that cannot be kept for the next hcsd is none.
func TestUnwritten(t *testing.T) {
	b := newBench(t)
	b.create(1, "a", false)
	i := b.instances["a"]
	b.started(1, "b", false)
	file := b.file
	b.file = filepath.Join(file, "below", "a", "file")

	if err := b.Create(1, "c", fmt.Sprintf(document, false), at); err == nil || b.systems["c"] != nil {
		t.Errorf("created: %v", err)
	}
	if err := b.Started(i, init1, at); err == nil || i.init != nil || b.systems["a"].State != hcsd.Created {
		t.Errorf("started: %v, %+v", err, b.systems["a"])
	}
	p := &Program{Number: 1, Process: container.Process{Pid: 7}}
	err := b.AddProgram(2, b.instances["b"], p, hcsd.Process{}, at)
	if err == nil || len(b.systems["b"].Processes) > 0 {
		t.Errorf("a program: %v, %+v", err, b.systems["b"])
	}
	change := `{"ResourcePath":"Container/Memory/SizeInMB","RequestType":"Update","Settings":64}`
	if _, _, err := b.Modify("b", change); err == nil || b.systems["b"].Doc.Container.Memory != nil {
		t.Errorf("changed: %v", err)
	}
	b.file = file
	if _, _, err := b.Modify("b", change); err != nil || b.systems["b"].Doc.Container.Memory.SizeInMB != 64 {
		t.Errorf("changed: %v", err)
	}
}

// TestLastHandle: with its last handle a system ends that was made so, and one that has ended is forgotten, with its
// files; a program that has ended likewise.
func TestLastHandle(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	b.create(1, "created", false)
	b.started(1, "stays", false)
	i := b.started(1, "ends", true)
	b.must(b.Open(2, handles.Ref{System: "ends"}))
	p := b.program(1, i, 7)
	b.must(b.Open(2, handles.Ref{System: "ends", Pid: 7}))

	if kill := b.close(1); kill != nil || !slices.Equal(b.removed, []string{"created"}) {
		t.Errorf("to kill %v, removed %v", kill, b.removed)
	}
	b.must(b.ProgramEnded(i, p, Exit{Code: 3, Told: true}))
	text, err := b.ProgramStatus("ends", 7)
	if want := `{"ProcessId":7,"Exited":true,"ExitCode":3,"LastWaitResult":0}`; err != nil || text != want {
		t.Errorf("%s, %v", text, err)
	}
	if kill := b.close(2); !slices.Equal(kill, []int{100}) || !slices.Equal(b.removed, []string{"created", "ends/1"}) {
		t.Errorf("to kill %v, removed %v", kill, b.removed)
	}
	b.must(b.Ended(ctx, i))
	select {
	case <-i.Over():
	default:
		t.Error("a system that has ended is not over")
	}
	if b.systems["ends"] != nil || !slices.Contains(b.removed, "ends") || b.Runs() != 1 {
		t.Errorf("removed %v, %d run", b.removed, b.Runs())
	}
	b.must(b.Ended(ctx, i)) // again, of one that is forgotten
}

// TestReusedID: what happens to the container of a system that is forgotten does nothing to another system of its id.
func TestReusedID(t *testing.T) {
	b := newBench(t)
	old := b.started(1, "a", false)
	b.must(b.Ended(context.Background(), old))
	b.close(1)
	b.started(2, "a", false)
	b.must(b.Ended(context.Background(), old))
	b.must(b.ProgramEnded(old, &Program{Process: container.Process{Pid: 7}}, Exit{}))
	b.is(b.Started(old, init1, at), hcsd.ErrSystemNotFound)
	if b.Runs() != 1 || b.UserOf("00000000-0000-0000-0000-00000000000a") != "a" {
		t.Error("the second system has ended")
	}
}

// TestExit: what a program's end is told as.
func TestExit(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Exit
		want uint32
	}{
		{"told", Exit{Code: 3, Told: true}, 3}, {"killed", Exit{}, Killed}, {"told 0", Exit{Told: true}, 0},
		{"no memory", Exit{Kills: 1}, noMemory}, {"no memory, told", Exit{Code: 1, Told: true, Kills: 1}, noMemory},
		{"another one had no memory", Exit{Code: 2, Told: true, Kills: 1}, 2},
	} {
		b := newBench(t)
		i := b.started(1, "a", false)
		p := b.program(1, i, 7)
		b.must(b.ProgramEnded(i, p, c.e))
		if got := b.systems["a"].Processes[7].Code; got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
		b.is(b.WithProgram("a", 7, func(string, *Program, hcsd.Process) error { return nil }), hcsd.ErrProcessStopped)
	}
}

// TestCallbacks: a callback is told what happens to what it is for, and what happened before.
func TestCallbacks(t *testing.T) {
	b := newBench(t)
	b.create(1, "a", false)
	system, err := b.Register("a", 0)
	b.must(err)
	i, _, done, err := b.Startable("a")
	b.must(err)
	b.must(b.Started(i, init1, at))
	done()
	p := b.program(1, i, 7)
	program, err := b.Register("a", 7)
	b.must(err)
	b.must(b.ProgramEnded(i, p, Exit{Told: true}))
	b.must(b.Ended(context.Background(), i))
	late, err := b.Register("a", 0)
	b.must(err)

	ended := hcsd.Notification{System: "a", Type: hcsd.SystemExited, Status: hcsd.ErrUnexpectedExit.Code}
	for _, c := range []struct {
		name string
		*Callback
		want []hcsd.Notification
	}{
		{"the system's", system, []hcsd.Notification{{System: "a", Type: hcsd.SystemStartCompleted}, ended}},
		{"the program's", program, []hcsd.Notification{{System: "a", Pid: 7, Type: hcsd.ProcessExited}}},
		{"a late one", late, []hcsd.Notification{ended}},
	} {
		select {
		case <-c.Ready():
		default:
			t.Errorf("%s has nothing", c.name)
		}
		if got := c.Next(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		c.End()
	}
}

// machine is what Restore finds; streams are none.
type machine struct{}

func (machine) Found(string, container.Process) (uint64, int) { return 4, 9 }
func (machine) Reopen(string, int) *container.Streams         { return nil }

// TestRestore: the next store has the systems that still run, with their programs. They do not end with the last
// handle, because nobody knows the handles.
func TestRestore(t *testing.T) {
	b := newBench(t)
	me, err := container.ProcessOf(os.Getpid())
	b.must(err)
	for _, id := range []string{"runs", "gone", "created"} {
		b.create(1, id, true)
	}
	for id, first := range map[string]container.Process{"runs": me, "gone": {Pid: me.Pid, Start: me.Start + 1}} {
		i, _, done, err := b.Startable(id)
		b.must(err)
		b.must(b.Started(i, first, at))
		done()
	}
	b.program(1, b.instances["runs"], 7)
	b.must(b.ProgramEnded(b.instances["runs"], b.program(1, b.instances["runs"], 8), Exit{}))

	next := newBench(t)
	next.file = b.file
	list, err := next.Restore(machine{})
	b.must(err)
	if len(list) != 1 || list[0].ID != "runs" || list[0].Init != me || len(list[0].Programs) != 1 ||
		list[0].Programs[0].Process.Pid != 7 {
		t.Fatalf("%+v", list)
	}
	if number, _ := next.NextProgram(list[0].Instance); number != 10 {
		t.Errorf("the next program has the number %d", number)
	}
	b.must(next.Open(5, handles.Ref{System: "runs"}))
	if kill := next.close(5); kill != nil || next.Runs() != 1 || len(next.removed) > 0 {
		t.Errorf("to kill %v, removed %v", kill, next.removed)
	}
	b.must(next.ProgramEnded(list[0].Instance, list[0].Programs[0], Exit{Kills: 4}))
	if next.systems["runs"].Processes[7] != nil {
		t.Error("a program that has ended and of which nobody has a handle is there")
	}
	if _, err := next.Stop("runs"); !errors.Is(err, hcsd.ErrPending) {
		t.Error(err)
	}
}

// TestConcurrent: systems are made, started, asked about, stopped and forgotten at the same moment. None is left.
func TestConcurrent(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	var all sync.WaitGroup

	for n := range 8 {
		all.Go(func() {
			for round := range 5 {
				c, id := handles.Connection(100*n+round+1), fmt.Sprint("s", n%4)
				if err := b.Create(c, id, fmt.Sprintf(document, true), at); err != nil {
					_ = b.Open(c, handles.Ref{System: id}) // another one's
				}
				if i, _, done, err := b.Startable(id); err == nil {
					if err := b.Started(i, init1, at); err == nil {
						all.Go(func() { b.end(i) })
					}
					done()
				}
				_, _ = b.Enumerate("{}")
				_ = b.UserOf("x")
				b.Released(ctx, b.handles.Close(c))
			}
		})
	}
	all.Wait()

	if len(b.systems)+len(b.instances) != 0 {
		t.Errorf("left: %v", b.systems)
	}
	if len(b.removed) == 0 {
		t.Error("nothing was removed")
	}
}

// end stops a system that runs, and records its end.
func (b *bench) end(i *Instance) {
	if _, err := b.Stop(i.ID); !errors.Is(err, hcsd.ErrPending) {
		b.t.Errorf("stopping what runs: %v", err)
	}
	if err := b.Ended(context.Background(), i); err != nil {
		b.t.Error(err)
	}
}
