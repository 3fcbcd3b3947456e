// Package killtest kills the agent of a node after each change that it makes, and looks at what the next agent makes
// of the host.
//
//	for each n:   host as Before leaves it ──▶ agent, kill -9 after n changes ──▶ agent: the tables are exact ──▶ agent: no change
//
// An agent is a process of its own: the program of the test, started again, makes passes of a mode until every route
// is there. What belongs to others has to be there at every moment. A mode whose host is in this process's memory is
// tested without processes.
package killtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// Agent is the agent of one node in one mode, and the host that it is on.
type Agent[Seen any, O table.Op] struct {
	// Mode returns the mode as a process that starts makes it, and the nodes of the cluster. dir is a folder for what
	// outlives the process beside the host, such as annotations. It is called in each of the processes. Required.
	Mode func(dir string) (keep.Mode[Seen, O], []table.Node, error)
	// Host makes the host, once, in the process of the test. Required.
	Host func(t *testing.T, dir string) Host
	// InMemory: the host is in this process's memory. Then the agent is a call, which does not return after its last
	// change.
	InMemory bool
	// Settled reports, after a pass on what Observe returned, that nobody else has to tell the agent anything. nil:
	// the agent works alone. Otherwise it waits for those who do, and as they do so when they like, it may make the
	// changes in another order each time.
	Settled func(Seen) bool
	// Lasts reports whether a change outlives the process that makes it; nil: every one does. An agent that starts on
	// a host that is right makes only others.
	Lasts func(O) bool
}

// Host is where an agent runs.
type Host struct {
	// Start starts the agent's process on the host; nil: as any other process.
	Start func(*exec.Cmd) error
	// Before makes the host as the first agent finds it, whatever has been there. Required.
	Before func() error
	// Tables returns what the host has, one entry a line. Required.
	Tables func() ([]string, error)
	// Want are the entries that the agent has to leave beside Foreign.
	Want []string
	// Foreign are entries of others, which Before makes.
	Foreign []string
}

// The environment of an agent's process.
const (
	folderVariable = "PORTHOLE_KILLTEST_FOLDER"
	afterVariable  = "PORTHOLE_KILLTEST_AFTER"
)

// never is the number of changes after which an agent that is not killed ends.
const never = -1

// passes bounds how often an agent looks at its host until every route is there, and patience how long one waits that
// does not work alone.
const (
	passes   = 5
	patience = 40 * time.Second
)

// report is what an agent's process leaves.
type report struct {
	Changes  []string // that it made
	Lasting  int      // how many of them outlive the process
	Killed   bool
	Complete bool
	Status   keep.Status
}

// EachChange runs the test of an agent. It must be the only thing that its test does, because the agents' processes
// start there.
func EachChange[Seen any, O table.Op](t *testing.T, a Agent[Seen, O]) {
	t.Helper()
	if dir := os.Getenv(folderVariable); dir != "" {
		after, err := strconv.Atoi(os.Getenv(afterVariable))
		if err == nil {
			err = a.process(dir, after)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}

	r := &run[Seen, O]{T: t, agent: a, dir: t.TempDir()}
	r.host = a.Host(t, r.dir)
	r.before()
	first := r.completes("without a kill")
	if len(first.Changes) < 2 {
		t.Fatalf("the first agent makes %d changes, too few to be killed between: %q", len(first.Changes),
			first.Changes)
	}
	t.Logf("the agent makes\n%s", strings.Join(first.Changes, "\n"))

	for n := 1; n <= len(first.Changes); n++ {
		what := fmt.Sprintf("killed after %q", first.Changes[n-1])
		r.before()
		killed := r.start(n)
		if !killed.Killed || len(killed.Changes) != n ||
			a.Settled == nil && !slices.Equal(killed.Changes, first.Changes[:n]) {
			t.Fatalf("%s: the agent reports %+v", what, killed)
		}
		r.foreign(what)
		r.completes(what)
		if again := r.completes(what + ", second start"); again.Lasting > 0 {
			t.Errorf("%s: an agent that starts on a host that is right changes %q", what, again.Changes)
		}
	}
}

// run is a test that runs.
type run[Seen any, O table.Op] struct {
	*testing.T
	agent Agent[Seen, O]
	host  Host
	dir   string
}

func (r *run[Seen, O]) before() {
	r.Helper()
	if err := r.host.Before(); err != nil {
		r.Fatalf("making the host: %v", err)
	}
	r.foreign("before the first agent")
}

func (r *run[Seen, O]) tables() []string {
	r.Helper()
	list, err := r.host.Tables()
	if err != nil {
		r.Fatalf("reading the host: %v", err)
	}
	slices.Sort(list)
	return list
}

// foreign checks that everything of others is there.
func (r *run[Seen, O]) foreign(what string) {
	r.Helper()
	have := r.tables()
	for _, entry := range r.host.Foreign {
		if !slices.Contains(have, entry) {
			r.Errorf("%s: %q of others is gone; there are\n%s", what, entry, strings.Join(have, "\n"))
		}
	}
}

// completes runs an agent to its end and checks the host.
func (r *run[Seen, O]) completes(what string) report {
	r.Helper()
	rep := r.start(never)
	if !rep.Complete {
		r.Errorf("%s: the next agent does not complete: %+v", what, rep.Status)
	}
	want := slices.Sorted(slices.Values(slices.Concat(r.host.Want, r.host.Foreign)))
	if have := r.tables(); !slices.Equal(have, want) {
		r.Errorf("%s: the host has\n%s\nwant\n%s", what, strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	return rep
}

// start runs an agent that is killed after some changes.
func (r *run[Seen, O]) start(after int) report {
	r.Helper()
	if r.agent.InMemory {
		return r.call(after)
	}
	file := filepath.Join(r.dir, "report.json")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Fatal(err)
	}

	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(r.Name()), "/", "$/^") + "$"
	cmd := exec.CommandContext(r.Context(), os.Args[0], "-test.run="+name)
	cmd.Env = append(os.Environ(), folderVariable+"="+r.dir, fmt.Sprintf("%s=%d", afterVariable, after))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	start := r.host.Start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	err := start(cmd)
	if err == nil {
		err = cmd.Wait()
	}

	var rep report
	data, readErr := os.ReadFile(file)
	if readErr == nil {
		readErr = json.Unmarshal(data, &rep)
	}
	if readErr != nil || (err != nil) != rep.Killed {
		r.Fatalf("the agent's process ends with %v: %v\n%s", err, readErr, out.String())
	}
	return rep
}

// call is start for a host in memory.
func (r *run[Seen, O]) call(after int) (rep report) {
	r.Helper()
	type killed struct{}
	defer func() {
		if reason := recover(); reason != nil && reason != any(killed{}) {
			panic(reason)
		}
	}()
	rep, err := r.agent.passes(r.dir, after, func(last report) {
		rep = last
		panic(killed{})
	})
	if err != nil {
		r.Fatal(err)
	}
	return rep
}

// process is an agent's process: it leaves a report in the folder, and kills itself after some changes.
func (a Agent[Seen, O]) process(dir string, after int) error {
	write := func(r report) error {
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "report.json"), data, 0o600)
	}
	r, err := a.passes(dir, after, func(last report) {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = write(last)
		}
		if err == nil {
			err = self.Kill() // SIGKILL; on Windows TerminateProcess
		}
		panic(fmt.Sprintf("the process lives after its kill: %v", err))
	})
	if err != nil {
		return err
	}
	return write(r)
}

// passes looks at the host and changes it until every route is there. kill is called after some changes, and does not
// return.
func (a Agent[Seen, O]) passes(dir string, after int, kill func(report)) (report, error) {
	mode, nodes, err := a.Mode(dir)
	if err != nil {
		return report{}, err
	}
	counted := &counting[Seen, O]{Mode: mode, lasts: a.Lasts}
	counted.made = func() {
		if len(counted.changes) == after {
			kill(report{Changes: counted.changes, Lasting: counted.lasting, Killed: true})
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	complete := func(s keep.Status) bool { return s.Complete() && (a.Settled == nil || a.Settled(counted.seen)) }
	o := keep.Options{Nodes: func() ([]table.Node, bool) { return nodes, true }}
	if a.Settled != nil {
		o.OnStatus = func(s keep.Status) {
			if complete(s) {
				cancel()
			}
		}
	}
	k := keep.New(counted, o)
	if a.Settled != nil {
		k.Run(ctx)
	} else {
		for range passes {
			if k.Sync(ctx); complete(k.Status()) {
				break
			}
		}
	}
	return report{Changes: counted.changes, Lasting: counted.lasting, Complete: complete(k.Status()),
		Status: k.Status()}, nil
}

// counting is a mode whose changes are counted.
type counting[Seen any, O table.Op] struct {
	keep.Mode[Seen, O]
	lasts func(O) bool // nil: every one does
	made  func()       // called after each

	seen    Seen // by the last Observe
	changes []string
	lasting int // how many of them outlive the process
}

// Observe implements keep.Mode.
func (c *counting[Seen, O]) Observe(ctx context.Context) (Seen, error) {
	seen, err := c.Mode.Observe(ctx)
	c.seen = seen
	return seen, err
}

// Apply implements keep.Mode.
func (c *counting[Seen, O]) Apply(ctx context.Context, o O) error {
	err := c.Mode.Apply(ctx, o)
	c.changes = append(c.changes, o.String())
	if c.lasts == nil || c.lasts(o) {
		c.lasting++
	}
	c.made()
	return err
}
