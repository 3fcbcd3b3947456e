// Package join puts the parts of `porthole join` and `porthole leave` together: the facts of this machine, the
// cluster, the checks and the steps of this system.
package join

import (
	"context"
	"errors"
	"time"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/join/step"
)

// Run makes this machine a node, or with DryRun says what that would change. The report is complete in every case; its
// outcome is the exit code.
func Run(ctx context.Context, request Request, p Progress) step.Report {
	start := time.Now()
	r := &run{request: request, progress: p, report: step.NewReport("JoinReport")}
	r.report.Node = request.NodeName
	err := r.all(ctx)
	if err != nil {
		r.report.Error = err.Error()
		if r.report.Outcome == "" {
			r.report.Outcome = step.Failed
		}
	}
	r.report.Seconds = time.Since(start).Seconds()
	return r.report
}

// run is one run of join.
//
//	request ─▶ setup: what this machine remembers ─▶ found: the machine's and the cluster's facts ─▶ checks ─▶ plan ─▶ apply
type run struct {
	request  Request
	progress Progress
	report   step.Report
	setup    *Setup
	before   earlier
}

// earlier is what is known of an earlier run.
type earlier struct {
	begun   bool // it changed something
	joined  bool // it was finished
	network string
}

// errRefused ends a run whose checks failed; they are in the report.
var errRefused = errors.New("a check failed, and nothing was changed")

// all is the run in its order. What it found is closed at its end, whatever happens.
func (r *run) all(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.request.Timeout)
	defer cancel()
	f := &found{}
	defer f.close()
	if err := r.prepare(&f.facts); err != nil {
		return err
	}
	// Only a run that may change something takes the lock.
	if !r.request.DryRun && !r.request.Plan {
		unlock, err := lock(r.setup.State)
		if err != nil {
			return err
		}
		defer unlock()
	}

	gather(ctx, r.setup, &f.facts)
	f.findCluster(ctx, r.setup, r.request, r.before)
	// A plan is worth most when a check fails, so it is told then too.
	if err := r.check(f); err != nil {
		return errors.Join(err, r.topologies(ctx, f))
	}
	if r.request.Plan {
		r.report.Outcome = step.Planned
		return r.topologies(ctx, f)
	}
	p, err := newPlan(r.setup, f, r.request)
	if err != nil {
		return err
	}
	return r.apply(ctx, p, &f.facts)
}

// prepare reads what this machine remembers. Without a cluster in the request the choices of the run before count.
func (r *run) prepare(facts *preflight.Facts) error {
	s, err := newSetup(r.request)
	if err != nil {
		return err
	}
	r.setup, r.report.Node = s, s.Name
	if found, err := s.readJournal(); err != nil || !found {
		return err
	}

	// A journal may be there without a finished join: begun says that something was changed.
	j := s.Journal
	r.before = earlier{begun: len(j.Steps) > 0 || j.State == step.StateJoined, joined: j.State == step.StateJoined}
	if r.request.NodeName == "" && j.Node != "" { // a name that was given at the first run
		s.Name, r.report.Node = j.Node, j.Node
	}
	choices, ok, err := parseChoices(j.Facts)
	if err != nil {
		return err
	}
	// A request that names a cluster is a new one, and its choices count as they are.
	if r.before.network = choices.Network; ok && r.request.Endpoint == "" && r.request.File == "" {
		s.choose(s.over(choices))
	}
	facts.Joined = &preflight.Joined{Node: j.Node, Server: j.Server, CAHash: j.CAHash}
	if r.before.joined {
		facts.Joined.Network = r.before.network
	}
	return nil
}

// check carries out the checks and refuses if one fails.
func (r *run) check(f *found) error {
	f.facts.Node = r.setup.Name
	if f.cluster != nil {
		r.report.Server = f.cluster.Server
	}
	return r.show(preflight.Run(&f.facts, r.setup.Ignore))
}

// show shows the results of checks, and refuses if one failed.
func (r *run) show(checks []step.Check) error {
	r.report.Checks = checks
	r.progress.Checked(checks)
	if r.report.Outcome = preflight.Outcome(checks); r.report.Outcome != "" {
		return errRefused
	}
	return nil
}

// apply carries the plan out: first the steps of the identity, then the checks that need it, then the others.
func (r *run) apply(ctx context.Context, p plan, facts *preflight.Facts) error {
	s := r.setup
	if !r.before.joined {
		s.Journal.State = step.StateJoining
	}
	// Signing requests may have to be approved by hand; the user is told how.
	s.Waiting = func(name string) {
		r.progress.Say("waiting for approval: kubectl certificate approve " + name)
	}
	runner := &step.Runner{DryRun: r.request.DryRun, Journal: s.Journal, Now: time.Now, Progress: r.progress.Step,
		Save:   func(j step.Journal) error { return install.SaveJournal(s.Node.Journal(), j) },
		Before: func(id string) { testPoint(id + "/before") }, After: func(id string) { testPoint(id + "/after") }}

	// The identity comes first, because the last checks ask with the node's certificate.
	if err := r.part(ctx, runner, p.identity); err != nil {
		return err
	}
	if err := r.checkAsNode(ctx, runner, p.identity, facts); err != nil {
		return err
	}
	if err := r.part(ctx, runner, append(p.rest, p.waits...)); err != nil {
		return err
	}
	r.report.Outcome = r.outcome()
	return nil
}

// part runs steps and notes their results. If one fails that had to wait for a node that is installed, the outcome is
// timedOut: its programs go on trying.
func (r *run) part(ctx context.Context, runner *step.Runner, steps []step.Step) error {
	results, err := runner.Run(ctx, steps)
	r.report.Steps = append(r.report.Steps, results...)
	if err == nil {
		return nil
	}
	// The step that failed is the last one with a result.
	_, goesOn := steps[len(results)-1].(step.Continuer)
	if goesOn && (errors.Is(err, install.ErrTime) || ctx.Err() != nil || errors.Is(err, credential.ErrUnreachable)) {
		r.report.Outcome = step.TimedOut
	}
	return err
}

// checkAsNode asks with the node's own certificate for what a token may not know: the rights of nodes, and the network
// of the others. If this refuses, or another machine takes the name at the same moment, what was done so far is
// undone.
func (r *run) checkAsNode(ctx context.Context, runner *step.Runner, done []step.Step, facts *preflight.Facts) error {
	// A node that has joined already is not checked again as a stranger.
	if r.request.DryRun || r.before.joined {
		return nil
	}
	s := r.setup
	api, err := s.Client()
	if err != nil {
		return err
	}
	defer api.Close()
	if err := patient(ctx, func() error { return networkFacts(ctx, api, s, facts) }); err != nil {
		return err
	}
	switch err := patient(ctx, func() error { return s.Claim(ctx) }); {
	// The certificate goes only if this run made it.
	case errors.Is(err, install.ErrTaken) &&
		len(s.Journal.Steps) <= len(done): // nothing else was done, also not by an earlier run
		return errors.Join(err, r.takeBack(ctx, runner, done))
	case err != nil:
		return err
	}

	// The checks are made again with what is known now; those of before are among them.
	checks := preflight.Run(facts, s.Ignore)
	if preflight.Outcome(checks) == "" {
		return nil
	}
	return errors.Join(r.show(checks), r.takeBack(ctx, runner, done))
}

// askPeriod is how often an API server is asked again that does not answer.
const askPeriod = time.Second

// patient calls ask until the API server answers, or ctx ends: a control plane may be restarting.
func patient(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, credential.ErrUnreachable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askPeriod):
		}
	}
}

// takeBack undoes the first steps, after which this machine is as it was before.
func (r *run) takeBack(ctx context.Context, runner *step.Runner, done []step.Step) error {
	results, err := runner.Undo(ctx, done)
	r.report.Steps = append(r.report.Steps, results...)
	return errors.Join(err, install.DropJournal(r.setup.Node.Journal()))
}

// outcome tells what a run that came to its end did.
// A run without a step that was "done" found everything as it should be.
func (r *run) outcome() step.Outcome {
	if r.request.DryRun {
		return step.Planned
	}
	for _, s := range r.report.Steps {
		if s.Result == "done" {
			return step.Joined
		}
	}
	return step.Unchanged
}

// Describe words the node that was joined: its kubelet, runtime and system.
func Describe(ctx context.Context, r Request) string {
	s, err := newSetup(r)
	if err != nil {
		return ""
	}
	f, err := s.readKubeconfig()
	if err != nil {
		return ""
	}
	s.Cluster = &f.Cluster
	return s.Node.Describe(ctx)
}
