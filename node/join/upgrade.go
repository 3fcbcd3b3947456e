package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/step"
	"porthole.dev/porthole/join/upgrade"
)

// UpgradeOptions are what a user says to `porthole upgrade` and `porthole rollback`.
type UpgradeOptions struct {
	Force  bool // tries a version again that was not healthy before
	DryRun bool
	// SkipSums takes programs of a folder without SHA256SUMS, as one that somebody built.
	SkipSums bool
	Source   string // folder of the new programs; "": that of the program that runs
	// Health is how long the node may take to be Ready with the new programs.
	Health time.Duration
}

// gateTime is how long one program may take to be healthy, and lookPeriod the time between two looks.
const (
	gateTime   = 30 * time.Second
	lookPeriod = 200 * time.Millisecond
)

// exchange is one run of upgrade or rollback.
type exchange struct {
	UpgradeOptions
	say     func(string)
	report  step.Report
	setup   *Setup
	journal *upgrade.Journal
	// self is the process of the node's kubelet if this runs in it; 0: it does not. It cannot be stopped by itself.
	self int
}

// version is a version of the programs, as the system of this machine has it.
// from and to are versions; parts are what is exchanged, in order; machine does it.
type version struct {
	from, to string
	parts    []upgrade.Part
	machine  upgrade.Machine
}

// Upgrade exchanges the node's programs for those that lie beside this one. If the node is not healthy with them it
// goes back.
func Upgrade(ctx context.Context, o UpgradeOptions, say func(string)) step.Report {
	return runExchange(o, say, func(x *exchange) error { return x.upgrade(ctx) })
}

// Rollback takes the last upgrade back: one that was interrupted, or one that was finished.
func Rollback(ctx context.Context, o UpgradeOptions, say func(string)) step.Report {
	return runExchange(o, say, func(x *exchange) error { return x.rollback(ctx) })
}

// verify checks the new programs by the sums of their archive.
func (x *exchange) verify() error {
	err := install.CheckSums(x.setup.Bundled, sourceFiles())
	if err == nil || x.SkipSums && errors.Is(err, install.ErrNoSums) {
		return nil
	}
	return fmt.Errorf("%w: %w", err, upgrade.ErrRefused)
}

// runExchange carries out run under the lock, and reports what became of it.
func runExchange(o UpgradeOptions, say func(string), run func(*exchange) error) step.Report {
	start := time.Now()
	x := &exchange{UpgradeOptions: o, say: say, report: step.NewReport("UpgradeReport")}
	err := x.locked(run)
	x.report.Outcome = outcomeOf(err, x.report.Outcome)
	if err != nil {
		x.report.Error = err.Error()
	}
	x.report.Seconds = time.Since(start).Seconds()
	return x.report
}

// outcomeOf returns the outcome of a run that ended with err; outcome is that of one without an error.
func outcomeOf(err error, outcome step.Outcome) step.Outcome {
	switch {
	case err == nil:
		return outcome
	case errors.Is(err, upgrade.ErrWentBack):
		return step.RolledBack
	case errors.Is(err, upgrade.ErrRefused):
		return step.Refused
	}
	return step.Failed
}

// locked reads what this machine remembers and makes sure that nobody else changes it.
func (x *exchange) locked(run func(*exchange) error) error {
	s, joined, err := recalled()
	if err != nil {
		return err
	}
	// Only a finished join has programs that can be exchanged.
	if !joined || s.Journal.State != step.StateJoined {
		return fmt.Errorf("this machine is no node, or its join was not finished: porthole join: %w",
			upgrade.ErrRefused)
	}

	if x.Source != "" {
		if s.Bundled, err = filepath.Abs(x.Source); err != nil {
			return fmt.Errorf("finding --source: %w", err)
		}
	}
	x.setup = s
	x.report.Node = s.Name
	x.report.Server = s.Journal.Server
	if x.journal, err = readUpgrade(s.State); err != nil {
		return err
	}
	if !x.DryRun {
		unlock, err := lock(s.State)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return run(x)
}

// upgrade takes an interrupted exchange back before it begins its own.
func (x *exchange) upgrade(ctx context.Context) error {
	if x.journal.Interrupted() && !x.DryRun {
		x.say(fmt.Sprintf("an upgrade to %s was interrupted", x.journal.To))
		if err := x.back(ctx, "it was interrupted"); err != nil {
			return err
		}
	}
	v, err := newVersion(x.setup)
	if err != nil {
		return err
	}

	x.report.From, x.report.To = v.from, v.to
	// The same version is no upgrade, and its programs are not checked.
	if v.from == v.to {
		x.report.Outcome = step.Unchanged
		return nil
	}
	if err := x.verify(); err != nil {
		return err
	}
	if x.DryRun {
		x.report.Outcome = step.Planned
		return nil
	}
	x.report.Outcome = step.Upgraded
	return x.runner(v.machine).
		Run(ctx, x.journal, upgrade.Exchange{From: v.from, To: v.to, Parts: v.parts, Force: x.Force})
}

// rollback goes to the version of before, by the journal of the last exchange. One that went back
// by itself has nothing to take back.
func (x *exchange) rollback(ctx context.Context) error {
	j := x.journal
	switch {
	case j == nil:
		return fmt.Errorf("this machine was never upgraded: %w", upgrade.ErrRefused)
	case j.Phase == upgrade.WentBack:
		x.report.From = j.From
		x.report.To = j.From
		x.report.Outcome = step.Unchanged
		return nil
	}
	x.report.From = j.To
	x.report.To = j.From
	x.report.Outcome = step.Upgraded
	if x.DryRun {
		x.report.Outcome = step.Planned
		return nil
	}
	if j.Interrupted() {
		return x.back(ctx, "it was interrupted")
	}

	machine, err := knownVersion(x.setup, j.From, x.self)
	if err != nil {
		return fmt.Errorf("%w: %w", err, upgrade.ErrRefused)
	}
	var parts []upgrade.Part
	// Parts are exchanged in the other direction.
	for _, p := range j.Parts {
		parts = append(parts, upgrade.Part{Name: p.Name, Old: p.New, New: p.Old})
	}
	return x.runner(machine).Run(ctx, j, upgrade.Exchange{From: j.To, To: j.From, Parts: parts, Force: true})
}

// back takes an exchange back that was begun.
func (x *exchange) back(ctx context.Context, reason string) error {
	// Before the first part was begun nothing was exchanged, and the old version need not be on the
	// disk.
	machine, err := knownVersion(x.setup, x.journal.From, x.self)
	// else there is nothing to go back to
	if err != nil && slices.ContainsFunc(x.journal.Parts, func(p upgrade.Part) bool { return p.Begun }) {
		return err
	}
	return x.runner(machine).Back(ctx, x.journal, reason)
}

// runner carries out exchanges on this machine. The journal is saved after each change of it.
func (x *exchange) runner(m upgrade.Machine) *upgrade.Runner {
	return &upgrade.Runner{Machine: m, Gate: gateTime, Soak: x.Health,
		Point: func(p string) { testPoint("upgrade " + p) },
		Save: func(j *upgrade.Journal) error {
			x.journal = j
			text, err := j.Text()
			if err != nil {
				return err
			}
			return install.SaveState(upgradeFile(x.setup.State), text)
		},
		Say: func(format string, args ...any) { x.say(fmt.Sprintf(format, args...)) },
		Wait: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lookPeriod):
				return nil
			}
		}}
}

// upgradeFile is the journal of the last exchange, in the node's state folder.
func upgradeFile(state string) string { return filepath.Join(state, "upgrade.json") }

// readUpgrade returns the journal of the last exchange; nil if there was none.
func readUpgrade(state string) (*upgrade.Journal, error) {
	text, err := os.ReadFile(upgradeFile(state))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal of the upgrade: %w", err)
	}
	return upgrade.ParseJournal(text)
}

// healthURLs are what the programs answer at when they are well.
var healthURLs = map[string]string{"porthole-routes": "http://127.0.0.1:10261/healthz",
	"kube-proxy": "http://127.0.0.1:10256/healthz", "kubelet": "http://127.0.0.1:10248/healthz"}

// nodeReady returns nil if the Node is Ready. The sign is the time of its lease, which its kubelet renews.
// A lease that is renewed shows that a kubelet runs now; the condition alone may be of the kubelet
// before.
func nodeReady(ctx context.Context, s *Setup) (sign string, err error) {
	api, err := s.Client()
	if err != nil {
		return "", err
	}
	defer api.Close()
	if err := (install.Ready{Node: &s.Node}).Now(ctx); err != nil {
		return "", err
	}
	var lease struct {
		Spec struct {
			RenewTime json.RawMessage `json:"renewTime"`
		} `json:"spec"`
	}
	if err := api.Do(ctx, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+s.Name, nil,
		&lease); err != nil {
		return "", fmt.Errorf("reading the node's lease: %w", err)
	}
	return string(lease.Spec.RenewTime), nil
}
