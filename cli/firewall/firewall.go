// Package firewall is the command group for the rules that make a Windows node's programs reachable through its
// inbound firewall.
package firewall

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
)

// host is the firewall of this host. system_windows.go implements it.
type host interface {
	// rules lists all inbound rules.
	rules() ([]rule, error)
	// carryOut adds a rule, or deletes all of a name.
	carryOut(operation) error
}

// Command is `porthole firewall`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "firewall",
		Short: "Show and make the firewall rules that the programs of a Windows node need",
		Long: `Windows Server drops incoming connections unless a rule allows them. Without rules 'kubectl logs', 'exec', 'port-forward' and 'top'
time out (kubelet.exe, port 10250), and so do the health checks of a load balancer (kube-proxy.exe, port 10256 and each service's
healthCheckNodePort). These commands make one rule for each program, because some ports are chosen later. The rules are called
"` + strings.TrimSpace(prefix) + ` PROGRAM"; rules of other names are left alone.`,
		Example: "  porthole firewall show\n  porthole firewall add --dry-run\n  porthole firewall add",
		Args:    cobra.NoArgs,
	}
	c.AddCommand(command("show", "List our rules and the programs that lack one", false),
		command("add", "Make the missing rules", true),
		command("remove", "Delete our rules", true))
	return c
}

// options of one command.
type options struct {
	verb, output string
	programs     []string
	vxlan        bool
	dryRun       bool
}

// command makes the command of one verb: show, add or remove. changes says that the verb changes the host, so that it
// has --dry-run.
func command(verb, short string, changes bool) *cobra.Command {
	o := options{verb: verb}
	c := &cobra.Command{
		Use: verb, Short: short, Args: cobra.NoArgs,
		Example: "  porthole firewall " + verb + "\n  porthole firewall " + verb + " -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := system()
			if err != nil {
				return err
			}
			return o.run(h, c.OutOrStdout())
		},
	}
	c.Flags().StringVarP(&o.output, "output", "o", "", "json")
	if verb != "remove" {
		c.Flags().StringArrayVar(&o.programs, "program", nil,
			`full path of a program, such as C:\k\kubelet.exe; may be repeated (default: those of `+
				strings.Join(programs, ", ")+" that are in the folder of this program)")
		c.Flags().BoolVar(&o.vxlan, "vxlan", false,
			"also a rule for the packets between the nodes of an overlay (porthole routes --mode vxlan, flannel): UDP "+
				vxlanPort)
	}
	if changes {
		c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only print what would be done, as commands of netsh")
		c.Example += "\n  porthole firewall " + verb + " --dry-run"
	}
	return c
}

// report is the answer in JSON.
type report struct {
	Rules []rule `json:"rules"` // ours, before the operations
	// Operations were carried out. With --dry-run and show they would be.
	Operations []operation `json:"operations"`
	DryRun     bool        `json:"dryRun"`
}

// run reads the rules, plans, and carries the plan out unless it is only to be shown. It stops at the first operation
// that fails; a second run plans what is left.
func (o options) run(h host, out io.Writer) error {
	if o.output != "" && o.output != "json" {
		return fmt.Errorf("--output %q: only json is known", o.output)
	}
	have, err := h.rules()
	if err != nil {
		return err
	}
	wanted := o.programs
	if len(wanted) == 0 && o.verb != "remove" {
		if wanted, err = besideSelf(); err != nil {
			return err
		}
	}

	r := report{Rules: []rule{}, Operations: planAdd(wanted, have), DryRun: o.dryRun || o.verb == "show"}
	if o.vxlan {
		r.Operations = append(r.Operations, planVXLAN(have)...)
	}
	if o.verb == "remove" {
		r.Operations = planRemove(have)
	}
	for _, list := range ours(have) {
		r.Rules = append(r.Rules, list...)
	}
	for _, op := range r.Operations {
		if r.DryRun {
			break
		}
		if err := h.carryOut(op); err != nil {
			return fmt.Errorf("%s: %w (this needs the rights of an administrator)", op, err)
		}
	}
	return o.print(out, r)
}

// print prints the rules for show, and the operations for add and remove. Empty lists are [] in JSON, not null, so
// that scripts can count them.
func (o options) print(out io.Writer, r report) error {
	if o.output == "json" {
		if r.Operations == nil {
			r.Operations = []operation{}
		}
		return json.NewEncoder(out).Encode(r)
	}

	if o.verb == "show" {
		for _, rule := range r.Rules {
			state := "allows everything to"
			if rule.Limited {
				state = "is limited or off, for"
			}
			fmt.Fprintf(out, "%-28s %s %s\n", rule.Name, state, rule.object())
		}
		for _, op := range r.Operations {
			if op.Verb == "add" {
				fmt.Fprintf(out, "%-28s missing or wrong: 'porthole firewall add' makes it\n", op.Name)
			}
		}
		return nil
	}

	for _, op := range r.Operations {
		fmt.Fprintln(out, op)
	}
	if len(r.Operations) == 0 {
		fmt.Fprintln(out, "nothing to do")
	}
	return nil
}

// besideSelf returns the node's programs in the folder of this one.
func besideSelf() (found []string, err error) {
	for _, name := range programs {
		path, err := program.Beside(name)
		if err != nil {
			return nil, err
		}
		if path != "" {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return nil, errors.New("none of " + strings.Join(programs, ", ") + " is in " + filepath.Dir(self) +
			": give their paths with --program")
	}
	return found, nil
}
