// Package service is the command group that installs and controls the programs of a node as services of Windows.
package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
)

// Command is `porthole service`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Install and control kubelet, kube-proxy and routes as services of Windows",
		Long: `Installs the programs of a node as services of Windows, and shows, starts, stops and removes these services. A service starts with
the machine and writes its log to a file that is rotated. When it starts, stops and fails, that is recorded in the Windows event log
(Application, source Porthole). After its first failure it is started again after 1 s, after the second after 5 s, and after each later
one after 15 s.`,
		Example: `  porthole service install routes -- --kubeconfig C:\k\config --cluster-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/12
  porthole service install kubelet --dry-run -- --config C:\k\kubelet.yaml --kubeconfig C:\k\config
  porthole service start
  porthole service status -o json
  porthole service uninstall kubelet`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(installCommand(), uninstallCommand(), statusCommand(), startCommand(), stopCommand())
	for _, sub := range c.Commands() {
		for _, p := range services.Programs {
			sub.ValidArgs = append(sub.ValidArgs, p.Command)
		}
	}
	return c
}

// common are flags that several commands have.
type common struct {
	output string
	dryRun bool
	limit  time.Duration
}

func (o *common) flags(c *cobra.Command, dryRun, limit bool) {
	c.Flags().StringVarP(&o.output, "output", "o", "", "json for all that is known")
	if dryRun {
		c.Flags().BoolVar(&o.dryRun, "dry-run", false, "print what would change, and change nothing")
	}
	if limit {
		c.Flags().DurationVar(&o.limit, "timeout", time.Minute, "how long to wait for each service")
	}
}

// connect checks the flags and connects to the service manager.
func (o *common) connect() (*services.Manager, error) {
	if o.output != "" && o.output != "json" {
		return nil, fmt.Errorf("-o %s: only json is known", o.output)
	}
	return services.Connect()
}

// withPrograms returns the function that a command about services runs. It connects to the service manager and calls
// do with it and with the programs that the arguments name.
func (o *common) withPrograms(do func(*cobra.Command, *services.Manager, []services.Program) error) func(*cobra.Command,
	[]string) error {
	return func(c *cobra.Command, args []string) error {
		m, err := o.connect()
		if err != nil {
			return err
		}
		defer m.Close()
		list, err := named(args)
		if err != nil {
			return err
		}
		return do(c, m, list)
	}
}

// print prints changes, or that there are none.
func (o *common) print(out io.Writer, changes []services.Change) error {
	if o.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"dryRun": o.dryRun, "changes": append([]services.Change{}, changes...)})
	}
	if len(changes) == 0 {
		fmt.Fprintln(out, "nothing to change")
	}
	for _, c := range changes {
		fmt.Fprintln(out, c)
	}
	return nil
}

// named returns the programs that the arguments name, or all if there are no arguments, in the order in which they are
// started.
func named(args []string) ([]services.Program, error) {
	if len(args) == 0 {
		return services.Programs, nil
	}
	var list []services.Program
	for _, name := range args {
		p, err := services.Find(name)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b services.Program) int {
		return slices.Index(services.Programs, a) - slices.Index(services.Programs, b)
	})
	return slices.Compact(list), nil
}

// installCommand makes `porthole service install`. With --start it starts a service that does not run; one that runs
// keeps its old flags until it is restarted.
func installCommand() *cobra.Command {
	var o common
	var i services.Options
	var start bool
	c := &cobra.Command{
		Use:   "install kubelet|kube-proxy|routes [-- ARGS…]",
		Short: "Install a program as a service, or change its service",
		Long: `Installs a program as a service of Windows, or changes its service. ARGS are the program's own flags; --windows-service and
--log-file are added. A second run with the same flags changes nothing. A service of that name that runs another program than ours is
left alone, and an error is returned.`,
		Example: `  porthole service install kube-proxy --start -- --config C:\etc\kubernetes\kube-proxy.yaml`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := services.Find(args[0])
			if err != nil {
				return err
			}
			m, err := o.connect()
			if err != nil {
				return err
			}
			defer m.Close()
			i.Args = args[1:]
			if err := complete(&i, p, m); err != nil {
				return err
			}
			changes, err := install(m, p.Wanted(i), o.dryRun)
			if err == nil && start {
				var started []services.Change
				started, err = o.startInstalled(c.Context(), m, p.Name)
				changes = append(changes, started...)
			}
			if err != nil && len(changes) == 0 {
				return err
			}
			// a start that fails leaves the service as it was installed
			return errors.Join(err, o.print(c.OutOrStdout(), changes))
		},
	}

	o.flags(c, true, true)
	c.Flags().StringVar(&i.Program, "program", "",
		"full path of the .exe (default: that of the same name in this program's folder, such as kubelet.exe, else this program)")
	c.Flags().StringVar(&i.LogDir, "log-dir", `C:\ProgramData\Porthole\logs`, "folder of the log files")
	c.Flags().StringSliceVar(&i.DependsOn, "depends-on", nil,
		"services that must run first (default for kubelet: containerd, if there is such a service).\n"+
			"Windows refuses to stop one of them while this service runs")
	c.Flags().BoolVar(&start, "start", false, "also start the service")
	return c
}

// complete fills in what was not given.
func complete(o *services.Options, p services.Program, m *services.Manager) error {
	if o.Program == "" {
		own, err := program.Beside(p.Command + ".exe")
		if err == nil && own == "" {
			own, err = os.Executable()
		}
		if err != nil {
			return fmt.Errorf("finding the program: %w", err)
		}
		o.Program = own
	}

	if !filepath.IsAbs(o.Program) || !filepath.IsAbs(o.LogDir) {
		return errors.New(
			"--program and --log-dir need full paths: the working folder of a service is C:\\Windows\\System32")
	}
	if o.DependsOn == nil && p.Command == "kubelet" {
		containerd, err := m.Get("containerd")
		if err != nil {
			return err
		}
		if containerd != nil {
			o.DependsOn = []string{"containerd"}
		}
	}
	return nil
}

// install makes the service as wanted and returns the changes. With dryRun it changes nothing.
func install(m *services.Manager, wanted services.Spec, dryRun bool) ([]services.Change, error) {
	have, err := m.Get(wanted.Name)
	if err != nil {
		return nil, err
	}
	var observed *services.Spec
	if have != nil {
		if err := services.CheckOwner(have.Spec); err != nil {
			return nil, err
		}
		observed = &have.Spec
	}
	changes := services.Diff(wanted, observed)
	if dryRun || len(changes) == 0 {
		return changes, nil
	}
	if err := services.AddEventSource(platform.EventSource); err != nil {
		return nil, err
	}
	return changes, m.Apply(wanted)
}

// startInstalled starts a service that does not run, and returns the change. With dryRun it changes nothing.
func (o *common) startInstalled(ctx context.Context, m *services.Manager, name string) ([]services.Change, error) {
	s, err := m.Get(name)
	if err != nil {
		return nil, err
	}
	state := "" // it would be installed first
	if s != nil {
		state = s.State
	}
	changes := stateChange(name, state, running)
	if o.dryRun || len(changes) == 0 {
		return changes, nil
	}
	limited, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	if err := m.Start(limited, name); err != nil {
		return nil, err
	}
	return changes, nil
}

// States of a service that commands bring about, as services.Status has them.
const (
	running = "running"
	stopped = "stopped"
)

// stateChange returns the change that brings a service from one state to another; none if it is in that state already.
func stateChange(name, from, to string) []services.Change {
	if from == to {
		return nil
	}
	return []services.Change{{Service: name, Field: "state", From: cmp.Or(from, stopped), To: to}}
}

// uninstallCommand makes `porthole service uninstall`. The services share one source of events in the registry, so it
// is removed only with the last of them.
func uninstallCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:   "uninstall [kubelet] [kube-proxy] [routes]",
		Short: "Stop services and remove them",
		Long: `Stops and removes the services of the named programs, or of all three. Log files stay. A service that runs another program than ours
is left alone, and an error is returned. It is no error if a service does not exist.`,
		Example: "  porthole service uninstall --dry-run\n  porthole service uninstall kubelet",
		RunE: o.withPrograms(func(c *cobra.Command, m *services.Manager, list []services.Program) error {
			changes, left, err := uninstall(c.Context(), m, list, o)
			if err == nil && left == 0 && !o.dryRun {
				err = services.RemoveEventSource(platform.EventSource)
			}
			if err != nil {
				return err
			}
			return o.print(c.OutOrStdout(), changes)
		}),
	}
	o.flags(c, true, true)
	return c
}

// uninstall removes the services of list in the reverse order of their start. left is how many services of Programs
// remain.
func uninstall(ctx context.Context, m *services.Manager, list []services.Program, o common) (changes []services.Change,
	left int, err error) {
	for _, p := range slices.Backward(services.Programs) {
		s, err := m.Get(p.Name)
		if err != nil {
			return nil, 0, err
		}
		if s == nil {
			continue
		}
		if !slices.Contains(list, p) {
			left++
			continue
		}
		if err := services.CheckOwner(s.Spec); err != nil {
			return nil, 0, err
		}

		changes = append(changes, services.Change{Service: p.Name, From: strings.Join(s.Command, " ")})
		if !o.dryRun {
			limited, cancel := context.WithTimeout(ctx, o.limit)
			err := m.Delete(limited, p.Name)
			cancel()
			if err != nil {
				return nil, 0, err
			}
		}
	}
	return changes, left, nil
}

func statusCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:     "status [kubelet] [kube-proxy] [routes]",
		Short:   "Show services: whether they run, and the last error of their logs",
		Example: "  porthole service status\n  porthole service status kubelet -o json",
		RunE: o.withPrograms(func(c *cobra.Command, m *services.Manager, list []services.Program) error {
			found, err := Found(m, list)
			if err != nil {
				return err
			}
			if o.output == "json" {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(found)
			}
			return Print(c.OutOrStdout(), found)
		}),
	}
	o.flags(c, false, false)
	return c
}

// Found returns the services of those programs that have one; never nil.
func Found(m *services.Manager, list []services.Program) ([]*services.Status, error) {
	found := []*services.Status{}
	for _, p := range list {
		s, err := m.Get(p.Name)
		if err != nil {
			return nil, err
		}
		if s != nil {
			found = append(found, s)
		}
	}
	return found, nil
}

// Print prints the services and, of those that have failed, the last error of their logs.
func Print(out io.Writer, list []*services.Status) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no services: `porthole service install` makes them")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tSTART\tPID\tEXIT CODE\tLOG")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", s.Name, s.State, s.Start, s.PID, s.ExitCode, s.Log)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		if s.State != running && s.ExitCode != 0 && s.LastError != "" {
			fmt.Fprintf(out, "last error of %s: %s\n", s.Name, s.LastError)
		}
	}
	return nil
}

func startCommand() *cobra.Command {
	return each("start", "Start services, in the order routes, kube-proxy, kubelet",
		func(ctx context.Context, m *services.Manager, name string) error {
			return m.Start(ctx, name)
		}, running)
}

func stopCommand() *cobra.Command {
	return each("stop", "Stop services, in the order kubelet, kube-proxy, routes",
		func(ctx context.Context, m *services.Manager, name string) error {
			return m.Stop(ctx, name)
		}, stopped)
}

// action is what is done to a service by its name.
type action func(context.Context, *services.Manager, string) error

// each returns a command that brings each named service, or each that exists if none is named, to a state by do. Those
// that stop do so in the reverse order of their start.
func each(verb, short string, do action, state string) *cobra.Command {
	var o common
	c := &cobra.Command{
		Use: verb + " [kubelet] [kube-proxy] [routes]", Short: short,
		Long:    short + ". Without arguments this is done to all of them that are installed.",
		Example: "  porthole service " + verb + " --dry-run\n  porthole service " + verb + " kubelet -o json",
		RunE: o.withPrograms(func(c *cobra.Command, m *services.Manager, list []services.Program) error {
			if list = slices.Clone(list); state == stopped {
				slices.Reverse(list)
			}
			if o.dryRun {
				changes, err := planEach(m.Get, list, state, c.Flags().NArg() > 0)
				if err != nil {
					return err
				}
				return o.print(c.OutOrStdout(), changes)
			}

			var errs []error
			changed := []string{}
			for _, p := range list {
				done, err := o.one(c, m, p, do)
				if done {
					changed = append(changed, p.Name)
				}
				errs = append(errs, err)
			}
			errs = append(errs, o.printEach(c.OutOrStdout(), verb, changed))
			return errors.Join(errs...)
		}),
	}
	o.flags(c, true, true)
	return c
}

// planEach returns what brings the services to a state, in the order of list. A service that does not exist is an
// error only if the user asked for it.
func planEach(get func(string) (*services.Status, error), list []services.Program, state string,
	asked bool) (changes []services.Change, err error) {
	for _, p := range list {
		s, err := get(p.Name)
		switch {
		case err != nil:
			return nil, err
		case s == nil && asked:
			return nil, missing(p)
		case s != nil:
			changes = append(changes, stateChange(p.Name, s.State, state)...)
		}
	}
	return changes, nil
}

func missing(p services.Program) error {
	return fmt.Errorf("there is no service %s: `porthole service install %s` makes it", p.Name, p.Command)
}

// printEach prints the services to which an action was done.
func (o *common) printEach(out io.Writer, verb string, names []string) error {
	if o.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"action": verb, "services": names})
	}
	for _, name := range names {
		if _, err := fmt.Fprintf(out, "%s: %s done\n", name, verb); err != nil {
			return err
		}
	}
	return nil
}

// one does something to a service and returns true if it succeeded. A service that does not exist is an error only if
// the user named it.
func (o *common) one(c *cobra.Command, m *services.Manager, p services.Program, do action) (done bool, err error) {
	s, err := m.Get(p.Name)
	if err != nil {
		return false, err
	}
	if s == nil {
		if c.Flags().NArg() > 0 {
			return false, missing(p)
		}
		return false, nil
	}

	ctx, cancel := context.WithTimeout(c.Context(), o.limit)
	defer cancel()
	if err := do(ctx, m, p.Name); err != nil {
		if s, again := m.Get(p.Name); again == nil && s != nil && s.LastError != "" {
			err = fmt.Errorf("%w\nlast error in %s: %s", err, s.Log, s.LastError)
		}
		return false, err
	}
	return true, nil
}
