// Package leave is the command `porthole leave`: it takes back what `porthole join` made.
package leave

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/join/step"
	node "porthole.dev/porthole/node/join"
)

// Command makes `porthole leave`.
func Command() *cobra.Command {
	o := node.LeaveOptions{}
	var output string
	c := &cobra.Command{
		Use:   "leave",
		Short: "Make this machine no node any more",
		Long: `Stops the node's programs, removes its pods, and takes back each change that "porthole join" made, in reverse order. Files that were
there before are put back. At the end it looks for everything again and names what is left. If the API server is away, all that is on
this machine is removed all the same.`,
		Example: `  porthole leave --drain
  porthole leave --kubeconfig /etc/kubernetes/admin.conf    # deletes the Node object too
  porthole leave --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return program.Misused(fmt.Errorf("-o %s: text or json", output))
			}
			p := printer{out: c.OutOrStdout(), json: output == "json", start: time.Now()}
			r := node.Leave(c.Context(), o, p)
			if err := p.end(c.ErrOrStderr(), r); err != nil {
				return err
			}
			if code := r.Outcome.ExitCode(); code != 0 {
				return program.ExitCode(code)
			}
			return nil
		},
	}

	fs := c.Flags()
	fs.BoolVar(&o.Drain, "drain", false, "evict the node's pods first; disruption budgets hold")
	fs.BoolVar(&o.KeepLogs, "keep-logs", false, "keep the logs of pods")
	fs.BoolVar(&o.Force, "force", false, "leave also if the node cannot be drained")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"kubeconfig of an administrator, with which the Node object is deleted too")
	fs.BoolVar(&o.DryRun, "dry-run", false, "list the steps that would be undone, and change nothing")
	fs.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "how long all of it may take")
	fs.StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

// printer shows a run.
type printer struct {
	out   io.Writer
	json  bool
	start time.Time
}

// Checked is for joins.
func (printer) Checked([]step.Check) {}

// Step shows what was undone.
func (p printer) Step(r step.Result) {
	switch r.Result {
	case "planned":
		p.Say("would undo " + r.ID)
	case "failed":
		p.Say(r.ID + ": " + r.Error)
	default:
		p.Say(r.ID + " undone")
	}
}

// Say shows a text.
func (p printer) Say(text string) {
	if !p.json {
		fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.start).Seconds(), text)
	}
}

func (p printer) end(problems io.Writer, r step.Report) error {
	if p.json {
		text, err := r.JSON()
		if err != nil {
			return err
		}
		_, err = p.out.Write(text)
		return err
	}
	switch r.Outcome {
	case step.Left:
		p.Say("nothing of Porthole is left: 0 programs, pods, interfaces, routes, files")
	case step.Unchanged:
		p.Say("nothing to do: this machine is no node")
	case step.Planned:
		p.Say("nothing was changed (--dry-run)")
	default:
		fmt.Fprintf(problems, "porthole: %s\n", strings.TrimSpace(r.Error))
	}
	return nil
}
