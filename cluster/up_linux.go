package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/slow"
)

//go:embed manifests/base.yaml
var baseManifest string

// How long each wait of Up may take. A cold machine with a slow disk needs about a tenth of it.
const (
	controlPlaneWait = 60 * time.Second
	nodesWait        = 120 * time.Second
	addonsWait       = 120 * time.Second
)

// UpOptions of Up; all are required.
type UpOptions struct {
	Layout Layout
	Config Config
	Out    io.Writer
}

// Up brings the cluster up and returns when it works. On a running cluster it changes nothing; after an interrupted Up
// it finishes the work.
func Up(ctx context.Context, o UpOptions) error {
	if err := Preflight(ctx, o.Layout, o.Config); err != nil {
		return err
	}
	unlock, err := lock(o.Layout)
	if err != nil {
		return err
	}
	defer unlock()

	p := newProgress(o.Out)
	running, err := isRunning(o.Layout, o.Config)
	if err != nil {
		return err
	}
	if !running {
		if err := start(ctx, o, p); err != nil {
			return err
		}
	} else {
		p.done("the cluster is running already")
	}
	return settle(ctx, o, p)
}

// isRunning reports whether the cluster in this folder is up. Another configuration in the same folder is an error.
func isRunning(l Layout, c Config) (bool, error) {
	active, _ := supervise.Supervisors(l.RunDir())
	had, err := readConfig(l)
	if errors.Is(err, os.ErrNotExist) || err == nil && active.PID == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if had != c {
		return false, fmt.Errorf("a cluster with other settings runs in %s: `porthole down` first", l.Dir)
	}
	return true, nil
}

func readConfig(l Layout) (Config, error) {
	var c Config
	data, err := os.ReadFile(l.ConfigFile())
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading %s: %w", l.ConfigFile(), err)
	}
	return c, nil
}

// writeConfig is whole after a power failure: without it nothing knows the cluster.
func writeConfig(l Layout, c Config) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteThrough(l.ConfigFile(), data, 0o600)
}

// RegistryURL returns the address of the registry of the cluster in a folder, as this machine reaches it.
func RegistryURL(l Layout) (string, error) {
	c, err := readConfig(l)
	return fmt.Sprintf("http://127.0.0.1:%d", c.RegistryPort), err
}

// writeFile writes a file and makes its folder. On the C: of a host it stays there, whatever the host's programs have
// put on the way.
func writeFile(path string, data []byte, mode os.FileMode) error {
	if p, name, ok := wine.InPrefix(path); ok {
		return p.WriteFile(name, data, mode)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// lock makes sure that one `up` or `down` at a time works on the folder.
func lock(l Layout) (func(), error) {
	if err := makeStateFolder(l); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(l.LockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another `porthole up` or `porthole down`: wait for it to end", l.Dir)
	}
	return func() { f.Close() }, nil
}

// start makes everything that the processes need and starts their supervisor.
func start(ctx context.Context, o UpOptions, p *progress) error {
	l, c := o.Layout, o.Config
	if err := makeFolders(l, c); err != nil {
		return err
	}
	lost, err := supervise.LostPower(l.RunDir())
	if err != nil {
		return err
	}
	if lost {
		if err := forgetUnwritten(l, c); err != nil {
			return err
		}
		p.done("the machine was not shut down: images of nodes, and Wine templates, are made anew")
	}
	if err := writeConfig(l, c); err != nil {
		return err
	}

	steps := []struct {
		what string
		do   func() error
	}{
		{"images for the local registry", func() error { return ensureImages(ctx, l) }},
		{"certificates and kubeconfigs", func() error { return ensureCredentials(l, c) }},
		{"network namespaces and links", func() error { return ensureNetwork(l, c) }},
		{"Windows hosts", func() error { return ensureWindowsHosts(ctx, l, c) }},
		{"configuration of every node", func() error { return writeNodeFiles(l, c) }},
		{"processes", func() error { return startProcesses(l, c) }},
	}

	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		p.done(s.what)
	}
	return nil
}

func ensureImages(ctx context.Context, l Layout) error {
	cmd := exec.CommandContext(ctx, l.Bundled("registry"), "build", "--out", l.Images())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func startProcesses(l Layout, c Config) error {
	tools, err := wine.Find()
	if err != nil && c.WindowsNodes > 0 {
		return err
	}
	processes, err := Processes(l, c, tools)
	if err != nil {
		return err
	}

	// What an earlier run has reached is not true of this one: the machine may have restarted.
	reached := []string{appliedFile(l), checkedFile(l)}
	for _, n := range c.Nodes() {
		reached = append(reached, readyFile(l, n.Name))
	}
	for _, reached := range reached {
		if err := os.Remove(reached); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if slow.Machine() {
		oneByOne(processes, l, c)
	}
	if err := supervise.WriteProcesses(l.RunDir(), processes); err != nil {
		return err
	}
	_, err = supervise.Spawn(SupervisorOptions(l))
	return err
}

// oneByOne makes the first node wait for the control plane, each other node for the one before it, and
// metrics-server for the last. On a slow machine nodes that start together leave the API server too little of
// the processor: TLS handshakes take longer than client-go's 10 s, every client tries again, and no node
// becomes Ready (seen in test/vm).
func oneByOne(processes []supervise.Process, l Layout, c Config) {
	when := map[string]supervise.Condition{}
	file := appliedFile(l)
	for _, n := range c.Nodes() {
		when[n.Name] = supervise.Condition{Path: file}
		if slices.Contains(c.networked(), n) { // others need not become ready
			file = readyFile(l, n.Name)
		}
	}

	for i := range processes {
		switch p := &processes[i]; {
		case strings.HasPrefix(p.Name, p.Node+"/"):
			p.WaitFor = slices.Insert(p.WaitFor, 0, when[p.Node])
		case p.Name == "metrics-server": // measures nodes
			p.WaitFor = slices.Insert(p.WaitFor, 0, supervise.Condition{Path: file})
		}
	}
}

// settle waits until the cluster works, and prints each step that is reached.
func settle(ctx context.Context, o UpOptions, p *progress) error {
	client, err := kube.NewCluster(o.Layout.Kubeconfig())
	if err != nil {
		return err
	}

	err = o.wait(ctx, controlPlaneWait, func(ctx context.Context) error { return client.Ready(ctx) })
	if err != nil {
		return fmt.Errorf("the control plane is not ready: %w (log: %s)", err, o.Layout.Log("controlplane"))
	}
	p.done("control plane")
	if _, err := os.Stat(checkedFile(o.Layout)); err == nil {
		return errors.Join(nodesSettle(ctx, o, client, p), networkSettle(ctx, o, client, p))
	}

	if err := o.wait(ctx, controlPlaneWait,
		func(ctx context.Context) error { return applyBase(ctx, o.Layout) }); err != nil {
		return err
	}
	if err := o.wait(ctx, controlPlaneWait,
		func(ctx context.Context) error { return prepareJoins(ctx, o) }); err != nil {
		return err
	}
	if err := joinNodes(ctx, o, p); err != nil {
		return err
	}
	if err := nodesSettle(ctx, o, client, p); err != nil {
		return err
	}
	if err := networkSettle(ctx, o, client, p); err != nil {
		return err
	}
	if err := openFirewalls(ctx, o, p); err != nil {
		return err
	}
	if err := checkCluster(ctx, o, client, p); err != nil {
		return err
	}
	if err := o.wait(ctx, addonsWait,
		func(ctx context.Context) error { return client.Serves(ctx, "metrics.k8s.io", "v1beta1") }); err != nil {
		return fmt.Errorf("metrics-server: %w (log: %s)", err, o.Layout.Log("metrics-server"))
	}
	p.done("metrics-server")
	return writeFile(checkedFile(o.Layout), nil, 0o644)
}

// applyBase gives the API server the objects that every cluster has.
func applyBase(ctx context.Context, l Layout) error {
	ca, err := os.ReadFile(filepath.Join(l.PKI(), "ca.crt"))
	if err != nil {
		return err
	}
	if err := apply(ctx, l, baseManifest+"---\n"+metricsObjects(ca)); err != nil {
		return err
	}
	return writeFile(appliedFile(l), nil, 0o644)
}

// checkedFile exists once the data path of this run has been tested, so that Up on a running cluster creates no pods.
func checkedFile(l Layout) string { return filepath.Join(l.RunDir(), "checked") }

// nodesSettle waits until every node is Ready, or has registered if its network is left to others.
func nodesSettle(ctx context.Context, o UpOptions, client *kube.Cluster, p *progress) error {
	seen := map[string]bool{}
	var reached error // of writing what is
	err := o.wait(ctx, nodesWait, func(ctx context.Context) error {
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return err
		}
		ready := nodesReady(o.Config.networked(), nodes, func(name string) {
			if !seen[name] {
				seen[name] = true
				reached = errors.Join(reached, writeFile(readyFile(o.Layout, name), nil, 0o644))
				p.done("node " + name + " is Ready")
			}
		})
		return errors.Join(reached, ready, nodesRegistered(o.Config.Nodes(), nodes))
	})
	if err != nil {
		return fmt.Errorf("%w (`porthole status` tells more; logs are in %s)", err, o.Layout.Hosts())
	}
	return nil
}

// networkSettle does what the network between nodes needs once they are there.
func networkSettle(ctx context.Context, o UpOptions, client *kube.Cluster, p *progress) error {
	settle := o.Config.network().settle
	if settle == nil {
		return nil
	}
	if err := o.wait(ctx, addonsWait, func(ctx context.Context) error { return settle(ctx, o, client) }); err != nil {
		return fmt.Errorf("network %s: %w", o.Config.Network, err)
	}
	p.done("network " + o.Config.Network)
	return nil
}

// nodesReady calls ready for each wanted node that is Ready, and returns an error that names the others.
func nodesReady(want []Node, have []v1.Node, ready func(name string)) error {
	conditions := map[string]v1.NodeCondition{}
	for _, n := range have {
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady {
				conditions[n.Name] = c
			}
		}
	}

	var missing []string
	for _, n := range want {
		switch c, ok := conditions[n.Name]; {
		case !ok:
			missing = append(missing, n.Name+": has not registered")
		case c.Status != v1.ConditionTrue:
			missing = append(missing, n.Name+": "+c.Reason+": "+c.Message)
		default:
			ready(n.Name)
		}
	}

	if len(missing) > 0 {
		return fmt.Errorf("nodes are not Ready: %s", strings.Join(missing, "; "))
	}
	return nil
}

// nodesRegistered returns an error that names the wanted nodes which the API does not know.
func nodesRegistered(want []Node, have []v1.Node) error {
	var missing []string
	for _, n := range want {
		if !slices.ContainsFunc(have, func(h v1.Node) bool { return h.Name == n.Name }) {
			missing = append(missing, n.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("nodes have not registered: %s", strings.Join(missing, ", "))
	}
	return nil
}

// wait calls try until it succeeds. If the time is over first, it returns the last error of try, and names the flag
// that gives more time.
func (o UpOptions) wait(ctx context.Context, usual time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(usual))
	defer cancel()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%w (after %v; on a slow machine: --time-scale)", last, slow.Limit(usual))
			}
			return last
		case <-time.After(slow.Limit(100 * time.Millisecond)):
		}
	}
}

// apply gives a manifest to the bundled kubectl.
func apply(ctx context.Context, l Layout, manifest string) error {
	cmd := exec.CommandContext(ctx, l.Bundled("kube"), "kubectl", "--kubeconfig", l.Kubeconfig(), "apply",
		"--server-side", "--force-conflicts", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("applying manifests: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// progress prints a line per step with the time since the start.
type progress struct {
	out   io.Writer
	start time.Time
}

func newProgress(out io.Writer) *progress { return &progress{out: out, start: time.Now()} }

func (p *progress) done(what string) {
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), what)
}
