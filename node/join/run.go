package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/join/step"
	"porthole.dev/porthole/node/kubelet"
	"porthole.dev/porthole/node/routes"
)

// Run makes this machine a node, or with DryRun says what that would change. The report is complete in every case; its
// outcome is the exit code.
func Run(ctx context.Context, o Options, p Progress) step.Report {
	start := time.Now()
	r := &run{Options: o, progress: p, report: step.NewReport("JoinReport")}
	r.report.Node = o.Node
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
type run struct {
	Options
	progress Progress
	report   step.Report
	setup    *Setup
	facts    preflight.Facts
	joined   bool   // an earlier run was finished
	chosen   string // network of an earlier run
	unusable error  // why the node's certificate, which is there, cannot be used; nil if it can
}

// errRefused ends a run whose checks failed; they are in the report.
var errRefused = errors.New("a check failed, and nothing was changed")

func (r *run) all(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if err := r.prepare(); err != nil {
		return err
	}
	if !r.DryRun && !r.Plan {
		unlock, err := lock(r.setup.State)
		if err != nil {
			return err
		}
		defer unlock()
	}

	gather(ctx, r.setup, &r.facts)
	api := r.findCluster(ctx)
	if api != nil {
		defer api.Close()
	}
	if err := r.check(); err != nil {
		return errors.Join(err, r.topologies(ctx, api))
	}
	if r.Plan {
		r.report.Outcome = step.Planned
		return r.topologies(ctx, api)
	}
	return r.carryOut(ctx, api)
}

// prepare reads what this machine remembers.
func (r *run) prepare() error {
	s, err := newSetup(r.Options)
	if err != nil {
		return err
	}
	r.setup, r.report.Node = s, s.Name
	text, err := os.ReadFile(s.Node.Journal())
	switch {
	case errors.Is(err, os.ErrNotExist):
		journal := step.NewJournal(s.Name, "")
		s.Journal = &journal
		return nil
	case err != nil:
		return fmt.Errorf("reading the journal: %w", err)
	}
	journal, err := step.ParseJournal(text)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Node.Journal(), err)
	}

	s.Journal, r.joined = &journal, journal.State == step.StateJoined
	if r.Options.Node == "" && journal.Node != "" { // a name that was given at the first run
		s.Name, r.report.Node = journal.Node, journal.Node
	}
	if err := r.recall(); err != nil {
		return err
	}
	r.facts.Joined = &preflight.Joined{Node: journal.Node, Server: journal.Server, CAHash: journal.CAHash}
	if r.joined {
		r.facts.Joined.Network = r.chosen
	}
	return nil
}

// findCluster returns a client of the cluster and notes in the facts what was found out; nil if there is no way to it.
func (r *run) findCluster(ctx context.Context) *credential.API {
	s, c := r.setup, &r.facts.Cluster
	c.KubeletVers, c.UUID = kubelet.Version, s.UUID
	api, err := r.reach(ctx)
	if s.Cluster != nil {
		c.Server, c.CAHash, c.Skew, c.SkewKnown = s.Cluster.Server, s.Cluster.CAHash, s.Cluster.Skew,
			s.Cluster.SkewKnown
		c.Now = time.Now().Add(-c.Skew)
		if list, err := credential.ParseCA(s.Cluster.CA); err == nil {
			c.NotBefore, c.NotAfter = list[0].NotBefore, list[0].NotAfter
		}
	}
	if err == nil {
		err = r.read(ctx, api)
	}
	if err != nil {
		c.Problem = problem(err)
	}
	return api
}

func problem(err error) *preflight.Problem {
	var p *credential.Problem
	if errors.As(err, &p) {
		return &preflight.Problem{Check: p.Check, Text: p.Text, Cure: p.Cure}
	}
	return &preflight.Problem{Check: "Discovery", Text: err.Error()}
}

// reach finds the cluster: by this machine's own certificate if it is a node already, else by token or file.
func (r *run) reach(ctx context.Context) (*credential.API, error) {
	s := r.setup
	if api := r.asNode(); api != nil {
		return api, nil
	}
	switch {
	case r.File != "":
		f, err := credential.ReadFile(ctx, r.File)
		if err != nil {
			return nil, err
		}
		s.Cluster = &f.Cluster
		if f.HasCredentials() && !r.TLSToken.Valid() {
			s.Bootstrap, err = f.API()
			return s.Bootstrap, err
		}
	case r.Token.Valid():
		c, err := credential.Discovery{Endpoint: r.Endpoint, Token: r.Token, Pins: r.Pins,
			SkipCA: r.SkipCA}.Discover(ctx)
		s.Cluster = c
		if err != nil {
			return nil, err
		}
	default:
		text := "this machine has no certificate of a node, and no token was given"
		if r.unusable != nil {
			text = fmt.Sprintf("the certificate of this node cannot be used (%v), and no token was given for a new one",
				r.unusable)
		}
		return nil, &credential.Problem{Check: "Discovery", Text: text,
			Cure: "kubeadm token create --print-join-command, and that line with porthole"}
	}

	api, err := s.Cluster.With(r.TLSToken, nil)
	s.Bootstrap = api
	return api, err
}

// asNode returns a client with the certificate of an earlier run; nil if there is none that can be used, or if another
// cluster is asked for.
func (r *run) asNode() *credential.API {
	s := r.setup
	if len(s.Journal.Steps) == 0 && !r.joined {
		return nil
	}
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		return nil
	}
	f, err := credential.ParseKubeconfig(text)
	if err != nil || f.Pair == nil {
		return nil
	}
	if f.Cluster, err = r.Pins.Limit(f.Cluster); err != nil {
		return nil
	}

	if pair, err := os.ReadFile(s.Pair()); err != nil {
		return nil
	} else if _, err := credential.Usable(pair, s.Name, f.Cluster.CA); err != nil {
		r.unusable = err
		return nil
	}
	s.Cluster = &f.Cluster
	api, err := f.API()
	if err != nil {
		return nil
	}
	return api
}

// read asks the cluster for its settings, and for a node of our name.
func (r *run) read(ctx context.Context, api *credential.API) (err error) {
	s, c := r.setup, &r.facts.Cluster
	var settings *credential.Settings
	for try := 0; ; try++ { // a control plane may be restarting
		settings, err = api.ReadSettings(ctx)
		if err == nil || !errors.Is(err, credential.ErrUnreachable) || try == 2 || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	s.Settings = settings
	c.Version = settings.Version
	c.PodSubnet, c.ServiceSubnet = first(r.PodCIDR, settings.PodSubnet,
		s.Journal.Facts["podSubnet"]), first(r.ServiceCIDR, settings.ServiceSubnet, s.Journal.Facts["serviceSubnet"])
	linuxSettings(&r.facts, settings.Kubelet)
	r.Network = first(r.Network, r.chosen, settings.Mode, routes.DefaultMode)
	if s.Network, c.Network.Wanted = r.Network, r.Network; r.Network == routes.OVN {
		r.facts.OpenVSwitch = askSwitch(ctx, s)
	}

	node, err := api.NodeOf(ctx, s.Name)
	if err != nil {
		return err
	}
	if c.Network.Declared = settings.Mode; !r.joined {
		if err := readNodes(ctx, api, s.Name, &c.Network); err != nil {
			return err
		}
	}
	if node != nil {
		c.Existing = &preflight.ExistingNode{Ready: preflight.IsReady(node), UUID: node.Status.NodeInfo.SystemUUID}
	}
	return nil
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// check carries out the checks and refuses if one fails.
func (r *run) check() error {
	r.facts.Node = r.setup.Name
	r.report.Checks = preflight.Run(&r.facts, r.Ignore)
	if r.setup.Cluster != nil {
		r.report.Server = r.setup.Cluster.Server
	}
	r.progress.Checked(r.report.Checks)
	r.report.Outcome = preflight.Outcome(r.report.Checks)
	if r.report.Outcome != "" {
		return errRefused
	}
	return nil
}

// carryOut runs the steps: first those of the identity, then the checks that need it, then the others.
func (r *run) carryOut(ctx context.Context, api *credential.API) error {
	s := r.setup
	if !r.joined {
		s.Journal.State = step.StateJoining
	}
	s.Journal.Node, s.Journal.Server, s.Journal.CAHash = s.Name, s.Cluster.Server, s.Cluster.CAHash
	s.Waiting = func(name string) {
		r.progress.Say("waiting for approval: kubectl certificate approve " + name)
	}
	if err := remember(s, r.facts.Cluster); err != nil {
		return err
	}

	identity := []step.Step{install.Key{Node: &s.Node}, install.Certificate{Node: &s.Node}}
	rest, err := systemSteps(s)
	if err != nil {
		return err
	}
	runner := r.runner()
	if err := r.part(ctx, runner, identity); err != nil {
		return err
	}
	if err := r.checkAsNode(ctx, runner, identity); err != nil {
		return err
	}
	if err := r.part(ctx, runner, append(rest, r.waits()...)); err != nil {
		return err
	}
	r.report.Outcome = r.outcome()
	return nil
}

// waits are the last steps.
func (r *run) waits() []step.Step {
	var list []step.Step
	if r.DryRun { // what has not begun cannot be waited for
		return nil
	}
	if r.Wait != WaitNone {
		list = append(list, install.Registered{Node: &r.setup.Node})
	}
	if r.Wait == WaitReady {
		list = append(list, install.Ready{Node: &r.setup.Node})
	}
	return append(list, install.Record{Journal: r.setup.Journal})
}

func (r *run) runner() *step.Runner {
	return &step.Runner{DryRun: r.DryRun, Journal: r.setup.Journal, Now: time.Now, Progress: r.progress.Step,
		Save:   func(j step.Journal) error { return install.SaveJournal(r.setup.Node.Journal(), j) },
		Before: func(id string) { testPoint(id + "/before") }, After: func(id string) { testPoint(id + "/after") }}
}

// part runs steps and notes their results. If one fails that had to wait for a node that is installed, the outcome is
// timedOut: its programs go on trying.
func (r *run) part(ctx context.Context, runner *step.Runner, steps []step.Step) error {
	results, err := runner.Run(ctx, steps)
	r.report.Steps = append(r.report.Steps, results...)
	if err == nil {
		return nil
	}
	last := results[len(results)-1].ID
	waiting := strings.HasPrefix(last, "start/") || last == "registered" || last == "ready" ||
		strings.HasPrefix(last, "running/")
	if waiting && (errors.Is(err, install.ErrTime) || ctx.Err() != nil || errors.Is(err, credential.ErrUnreachable)) {
		r.report.Outcome = step.TimedOut
	}
	return err
}

// checkAsNode asks with the node's own certificate for what a token may not know: the rights of nodes, and the network
// of the others. If this refuses, or another machine takes the name at the same moment, what was done so far is
// undone.
func (r *run) checkAsNode(ctx context.Context, runner *step.Runner, done []step.Step) error {
	if r.DryRun || r.joined {
		return nil
	}
	s := r.setup
	api, err := s.Client()
	if err != nil {
		return err
	}
	defer api.Close()
	if err := patient(ctx, func() error { return networkFacts(ctx, api, s, &r.facts) }); err != nil {
		return err
	}
	switch err := patient(ctx, func() error { return s.Claim(ctx) }); {
	case errors.Is(err, install.ErrTaken) &&
		len(s.Journal.Steps) <= len(done): // nothing else was done, also not by an earlier run
		return errors.Join(err, r.takeBack(ctx, runner, done))
	case err != nil:
		return err
	}

	list := preflight.Run(&r.facts, r.Ignore)
	outcome := preflight.Outcome(list)
	if outcome == "" {
		return nil
	}
	r.report.Checks = list
	r.progress.Checked(list)
	r.report.Outcome = outcome
	return errors.Join(errRefused, r.takeBack(ctx, runner, done))
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
func (r *run) outcome() step.Outcome {
	if r.DryRun {
		return step.Planned
	}
	for _, s := range r.report.Steps {
		if s.Result == "done" {
			return step.Joined
		}
	}
	return step.Unchanged
}

// choices are the options that a later run without arguments takes over. None is a secret.
type choices struct {
	NodeIP      string            `json:"nodeIP,omitempty"`
	NIC         string            `json:"nic,omitempty"`
	CRISocket   string            `json:"criSocket,omitempty"`
	Network     string            `json:"network"`
	RoutesArgs  []string          `json:"routesArgs,omitempty"`
	BGPConfig   string            `json:"bgpConfig,omitempty"`
	PodCIDR     string            `json:"podCIDR,omitempty"`
	ServiceCIDR string            `json:"serviceCIDR,omitempty"`
	Labels      string            `json:"labels,omitempty"`
	Taints      string            `json:"taints,omitempty"`
	KubeletArgs []string          `json:"kubeletArgs,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	PatchesDir  string            `json:"patchesDir,omitempty"`
	Ignore      []string          `json:"ignore,omitempty"`
	InstallDir  string            `json:"installDir"`
	Firewall    []int             `json:"firewallPorts,omitempty"`
	NoFirewall  bool              `json:"noFirewall,omitempty"`
}

// remember notes in the journal what the cluster and the user said. It is on the disk with the next change.
func remember(s *Setup, c preflight.Cluster) error {
	o := s.Options
	for flag, path := range map[string]*string{"--patches": &o.PatchesDir, "--bgp-config": &o.BGPConfig} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("finding %s: %w", flag, err)
		}
	}
	text, err := json.Marshal(choices{o.NodeIP, o.NIC, o.CRISocket, o.Network, o.RoutesArgs, o.BGPConfig, o.PodCIDR,
		o.ServiceCIDR, o.Labels, o.Taints, o.KubeletArgs, o.Environment, o.PatchesDir, o.Ignore, o.InstallDir,
		o.FirewallPorts, o.NoFirewall})
	if err != nil {
		return fmt.Errorf("encoding the journal: %w", err)
	}
	s.Journal.Facts["podSubnet"], s.Journal.Facts["serviceSubnet"], s.Journal.Facts["options"] = c.PodSubnet,
		c.ServiceSubnet, string(text)
	return nil
}

// recall takes over the options of the run before if this one names no cluster: `porthole join` alone means "as
// before".
func (r *run) recall() error {
	text := r.setup.Journal.Facts["options"]
	if text == "" {
		return nil
	}
	var c choices
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("reading the journal's options: %w", err)
	}
	if r.chosen = c.Network; r.Endpoint != "" || r.File != "" {
		return nil
	}
	o := &r.Options
	o.NodeIP, o.NIC, o.CRISocket, o.PodCIDR, o.ServiceCIDR = c.NodeIP, c.NIC, c.CRISocket, c.PodCIDR, c.ServiceCIDR
	o.Network = first(o.Network, c.Network) // another one is refused, not passed over
	o.Labels, o.Taints, o.KubeletArgs, o.PatchesDir, o.InstallDir = c.Labels, c.Taints, c.KubeletArgs, c.PatchesDir,
		c.InstallDir
	o.Environment, o.FirewallPorts, o.NoFirewall = c.Environment, c.Firewall, c.NoFirewall
	o.RoutesArgs, o.BGPConfig = c.RoutesArgs, c.BGPConfig
	o.Ignore = append(o.Ignore, c.Ignore...)
	r.setup.Options, r.setup.IP = r.Options, o.NodeIP
	return nil
}

// Describe words the node that was joined: its kubelet, runtime and system.
func Describe(ctx context.Context, o Options) string {
	s, err := newSetup(o)
	if err != nil {
		return ""
	}
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		return ""
	}
	f, err := credential.ParseKubeconfig(text)
	if err != nil {
		return ""
	}
	s.Cluster = &f.Cluster
	return s.Node.Describe(ctx)
}

// newSetup returns where things are on this machine.
func newSetup(o Options) (*Setup, error) {
	host, err := platform.ReadHost(rootFolder(o))
	if err != nil {
		return nil, err
	}
	s := &Setup{Options: o}
	paths(s)
	s.Name, s.IP, s.UUID = strings.ToLower(first(o.Node, host.Hostname)), o.NodeIP, host.SystemUUID
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	s.Bundled = filepath.Dir(self)
	return s, nil
}
