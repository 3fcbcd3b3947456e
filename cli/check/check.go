// Package check is the command that compares a Windows host with what our programs assume of Windows.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/check/probe"
	"porthole.dev/porthole/cli/program"
)

// Exit codes beside 0.
const (
	differs    = program.ExitCode(1)
	incomplete = program.ExitCode(2)
)

// options are the flags.
type options struct {
	probe.Options
	probes       []string
	output, host string
	all          bool
	from         []string // files with reports of probes; if there are any, no probe runs
}

// Command is `porthole check`.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "check",
		Short: "Compare this Windows host with what a node's programs assume of Windows",
		Long: `Asks this Windows host the questions that no document answers, and prints where the host differs from what the programs of a
node assume. docs/windows-facts.md lists the questions by number. Without --allow-changes it only reads. With --allow-changes it also
makes a network, endpoints, load balancers and files called porthole-check, and removes them. It refuses to do so on a host that has a
network for pods.

Of an emulated host (--host) it also says what its Wine needs of each mend, which takes 20 s the first time: needed, not needed, does
not fit, required (nothing tells). docs/wine.md has the list.

To learn what a reboot does: run it with --allow-changes --leave, reboot, and run it with --allow-changes.

Exit code: 0 all answers are as assumed, 1 something differs, 2 a probe could not run or left something behind.`,
		Example: "  porthole check                                  # the questions that need no change\n" +
			"  porthole check --allow-changes                  # all questions, on a machine that serves no pods yet\n" +
			"  porthole check --allow-changes -o json >out     # the same with every answer, to send to somebody\n" +
			"  porthole check --host h1 --allow-changes        # an emulated host of this Linux machine",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.host != "" {
				return onHost(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
			}
			return run(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}

	f := c.Flags()
	f.BoolVar(&o.Changes, "allow-changes", false, "make networks, files and pods on this machine, and remove them")
	f.BoolVar(&o.Leave, "leave", false, "leave what the probe of HNS made, for a run after a reboot, which removes it")
	f.BoolVar(&o.RestartHNS, "restart-hns", false, "also restart the service hns: pods may lose their network")
	f.StringVar(&o.Runtime.Endpoint, "runtime-endpoint", probe.DefaultEndpoint,
		"address of the container runtime's CRI")
	f.StringVar(&o.Runtime.Image, "image", "",
		"Windows image that fits this host, for pods of the runtime's probe; empty: no pods")
	f.StringSliceVar(&o.probes, "probe", nil,
		"which probes to run: "+strings.Join(check.Probes, ", ")+", and with --host "+mendsProbe+"; empty: all")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.BoolVar(&o.all, "all", false, "also print what is as assumed")
	f.StringSliceVar(&o.from, "from", nil, "compare these reports of probe programs (JSON files) and ask no host")
	hostFlags(f, &o)
	return c
}

// mendsProbe is the probe of the mends of Wine, which runs beside an emulated host.
const mendsProbe = "mends"

// runs are the probes by name.
var runs = map[string]func(context.Context, probe.Options) (check.Report, error){
	"host": probe.RunHost, "hns": probe.RunHNS, "runtime": probe.RunRuntime,
}

func (o options) check() error {
	for _, name := range o.probes {
		if name == mendsProbe && o.host == "" {
			return errors.New("--probe mends asks about the Wine of an emulated host: name the host by --host")
		}
		if name != mendsProbe && !slices.Contains(check.Probes, name) {
			return fmt.Errorf("--probe %s: known are %s", name, strings.Join(check.Probes, ", "))
		}
	}
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %s: text and json are known", o.output)
	}
	if !o.Changes && (o.Leave || o.RestartHNS) {
		return errors.New("--leave and --restart-hns change the machine: they need --allow-changes")
	}
	if o.host != "" && len(o.from) > 0 {
		return errors.New("--from asks no host: leave out --host")
	}
	return nil
}

// result is the output as JSON.
type result struct {
	Findings []check.Finding `json:"findings"`
	Reports  []check.Report  `json:"reports"`
	// Failed has the probes that ended early, with the reason.
	Failed map[string]string `json:"failed,omitempty"`
	// Mends are those of the Wine of an emulated host.
	Mends *check.Mends `json:"mends,omitempty"`
}

// run asks the probes that were chosen, or reads reports of earlier runs, compares the answers with the facts, and
// prints the result. It prints what it learned even if a probe fails. Its errors are exit codes: all texts are printed
// already.
func run(ctx context.Context, o options, out, errs io.Writer) error {
	if err := o.check(); err != nil {
		fmt.Fprintln(errs, "porthole:", err)
		return incomplete
	}

	res := result{Failed: map[string]string{}, Findings: []check.Finding{}}
	if len(o.from) > 0 {
		var err error
		if res.Reports, err = read(o.from); err != nil {
			fmt.Fprintln(errs, "porthole:", err)
			return incomplete
		}
		o.probes = []string{}
	} else if len(o.probes) == 0 {
		o.probes = check.Probes
	}
	for _, name := range check.Probes {
		if !slices.Contains(o.probes, name) {
			continue
		}
		report, err := runs[name](ctx, o.Options)
		if err != nil {
			res.Failed[name] = err.Error()
		}
		res.Reports = append(res.Reports, report)
	}
	res.Findings = check.Compare(check.Facts(), res.Reports)

	if err := write(res, o, out); err != nil {
		return err
	}
	return outcome(res, errs)
}

// read reads reports that probes wrote. Of two files of the same probe the later one counts.
func read(files []string) ([]check.Report, error) {
	var reports []check.Report
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var r check.Report
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s is no report of a probe: %w", name, err)
		}
		reports = slices.Insert(reports, 0, r)
	}
	return reports, nil
}

func write(res result, o options, out io.Writer) error {
	if o.output == "json" {
		return check.PrintJSON(out, res)
	}

	if len(res.Reports) > 0 && res.Reports[0].Release != "" {
		fmt.Fprintln(out, "Windows", res.Reports[0].Release)
	}
	if len(res.Findings) > 0 {
		if err := check.Print(out, res.Findings, o.all); err != nil {
			return err
		}
	}
	if res.Mends == nil {
		return nil
	}
	return res.Mends.Print(out, o.all)
}

// outcome prints on errs which probes failed or left something behind, and returns the exit code of the result.
func outcome(res result, errs io.Writer) error {
	bad := false
	for _, name := range check.Probes {
		if text := res.Failed[name]; text != "" {
			fmt.Fprintf(errs, "porthole: the probe %s ended early: %s\n", name, text)
			bad = true
		}
	}
	for _, r := range res.Reports {
		for _, left := range r.Left {
			fmt.Fprintf(errs, "porthole: the probe %s could not remove what it made: %s\n", r.Probe, left)
			bad = true
		}
	}

	switch {
	case bad:
		return incomplete
	case check.Count(res.Findings, check.Differs) > 0, res.Mends != nil && !res.Mends.Good():
		return differs
	}
	return nil
}
