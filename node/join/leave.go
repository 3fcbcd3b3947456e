package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/step"
)

// LeaveOptions are what a user says to `porthole leave`.
type LeaveOptions struct {
	Drain      bool
	KeepLogs   bool
	Force      bool   // goes on when the node cannot be drained
	Kubeconfig string // of an administrator: the Node object is deleted too
	DryRun     bool
	Timeout    time.Duration
}

// Leave makes this machine no node any more. It undoes all that can be undone also if parts fail, and then looks for
// what is left.
func Leave(ctx context.Context, o LeaveOptions, p Progress) step.Report {
	start := time.Now()
	l := &leave{LeaveOptions: o, progress: p, report: step.NewReport("LeaveReport")}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	l.report.Outcome = step.Left
	if err := l.all(ctx); err != nil {
		l.report.Error = err.Error()
		l.report.Outcome = step.Failed
	}
	l.report.Seconds = time.Since(start).Seconds()
	return l.report
}

// leave is one run. setup is nil until prepare has read the journal.
type leave struct {
	LeaveOptions
	progress Progress
	report   step.Report
	setup    *Setup
}

// all takes a node back. It returns an error if something is left.
func (l *leave) all(ctx context.Context) error {
	joined, err := l.prepare()
	if err != nil {
		return err
	}
	if !joined {
		l.report.Outcome = step.Unchanged
		return nil
	}
	// A dry run takes no lock, since it changes nothing.
	if l.DryRun {
		l.report.Outcome = step.Planned
		return l.plan()
	}

	unlock, err := lock(l.setup.State)
	if err != nil {
		return err
	}
	defer unlock()
	// The drain comes while the node's certificate is still there.
	if err := l.drain(ctx); err != nil {
		if !l.Force {
			return fmt.Errorf("%w (--force leaves all the same)", err)
		}
		l.progress.Say("warning: " + err.Error())
	}
	return l.undo(ctx)
}

// prepare reads the journal, and reports whether there is one.
func (l *leave) prepare() (joined bool, err error) {
	l.setup, joined, err = recalled()
	if joined {
		l.report.Node = l.setup.Name
		l.report.Server = l.setup.Journal.Server
	}
	return joined, err
}

// plan lists the steps that would be undone, the last first.
func (l *leave) plan() error {
	steps := l.setup.Journal.Steps
	for i := len(steps) - 1; i >= 0; i-- {
		r := step.Result{Op: step.Op{ID: steps[i].ID, Action: step.Delete, Wanted: steps[i].Before,
			Observed: []byte("null")}, Result: "planned"}
		l.report.Steps = append(l.report.Steps, r)
		l.progress.Step(r)
	}
	return nil
}

// drain cordons the node and evicts its pods, with the node's own certificate.
func (l *leave) drain(ctx context.Context) error {
	if !l.Drain {
		return nil
	}
	api, err := l.setup.Client()
	if err != nil {
		return err
	}
	defer api.Close()
	return api.Drain(ctx, l.setup.Name, func(text string) { l.progress.Say(text) })
}

// undo takes the steps back, removes what the node's programs made, and looks again.
func (l *leave) undo(ctx context.Context) error {
	// The state is saved first, so that an interrupted leave is carried on as one.
	s := l.setup
	s.Journal.State = step.StateLeaving
	runner := &step.Runner{Journal: s.Journal, Now: time.Now, Progress: l.progress.Step,
		Save:   func(j step.Journal) error { return install.SaveJournal(s.Node.Journal(), j) },
		Before: func(id string) { testPoint("undo " + id + "/before") },
		After:  func(id string) { testPoint("undo " + id + "/after") }}
	if err := runner.Save(*s.Journal); err != nil {
		return err
	}
	steps, err := undoSteps(s)
	if err != nil {
		return err
	}
	// Steps are undone from the last to the first; the identity is the first of all.
	steps = append([]step.Step{install.Key{Node: &s.Node}, install.Certificate{Node: &s.Node}}, steps...)
	if err := l.undoSteps(ctx, runner, steps); err != nil {
		return err
	}

	l.deleteNode(ctx)
	left, err := leftovers(ctx, s)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		for _, what := range left {
			l.progress.Say("left: " + what)
		}
		return fmt.Errorf("%d things of Porthole are left", len(left))
	}
	// The journal goes last: as long as it is there, leave can be run again.
	return errors.Join(install.DropState(upgradeFile(s.State)), install.DropJournal(s.Node.Journal()))
}

// undoSteps takes the steps back, and the pods when the programs have ended. What pods need to end stays if they do
// not.
func (l *leave) undoSteps(ctx context.Context, runner *step.Runner, steps []step.Step) error {
	err := beforeUndo(ctx, l.setup)
	now := slices.DeleteFunc(slices.Clone(steps), func(s step.Step) bool { return afterPods(s) })
	results, failed := runner.Undo(ctx, now)
	// Pods need the CNI plugins to end; these steps are undone after them.
	l.report.Steps = results
	err = errors.Join(err, failed)
	if failed := endPods(ctx, l.setup); failed != nil {
		return errors.Join(err, failed)
	}

	later := slices.DeleteFunc(slices.Clone(steps), func(s step.Step) bool { return !afterPods(s) })
	results, failed = runner.Undo(ctx, later)
	l.report.Steps = append(l.report.Steps, results...)
	return errors.Join(err, failed, afterUndo(ctx, l.setup, l.KeepLogs))
}

// deleteNode deletes the Node object with an administrator's credentials, or says who can. A node may not do that
// itself.
func (l *leave) deleteNode(ctx context.Context) {
	command := "kubectl delete node " + l.setup.Name
	if l.Kubeconfig == "" {
		l.progress.Say("the Node object stays in the cluster: " + command)
		return
	}
	err := func() error {
		text, err := os.ReadFile(l.Kubeconfig)
		if err != nil {
			return err
		}
		f, err := credential.ParseKubeconfig(text)
		if err != nil {
			return err
		}
		api, err := f.API()
		if err != nil {
			return err
		}
		defer api.Close()
		return api.DeleteNode(ctx, l.setup.Name)
	}()

	if err != nil {
		l.progress.Say(fmt.Sprintf("the Node object stays in the cluster (%v): %s", err, command))
	}
}
