// Package upgrade has the commands `porthole upgrade` and `porthole rollback`: they exchange the programs of a node.
package upgrade

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/join/step"
	node "porthole.dev/porthole/node/join"
)

// Command makes `porthole upgrade`.
func Command() *cobra.Command {
	var o node.UpgradeOptions
	c := command("upgrade", &o, node.Upgrade)
	c.Short = "Exchange the programs of this node for those of this folder"
	c.Long = `Exchanges the programs of a node that "porthole join" made for those that lie beside this program, one after the other: porthole-routes,
kube-proxy, kubelet, CNI plugins. Each has to be healthy before the next one follows, and the node has to be Ready at the end. If
something is not healthy, all of it goes back to the version of before, and that version is refused until --force is given. Pods run on.

Exit codes: 0 done, 1 failed, 4 refused and nothing was changed, 5 the new version was not healthy and the node is back at the old one.`
	c.Example = `  porthole upgrade                  # in the folder of the unpacked archive of the new version
  porthole upgrade --dry-run
  porthole rollback                 # back to the version of before`
	c.Flags().BoolVar(&o.SkipSums, "skip-sums", false,
		"take programs of a folder without SHA256SUMS, as one that somebody built")
	c.Flags().StringVar(&o.Source, "source", "",
		"folder of the unpacked archive of the new version; empty: that of this program")
	return c
}

// RollbackCommand makes `porthole rollback`.
func RollbackCommand() *cobra.Command {
	c := command("rollback", &node.UpgradeOptions{}, node.Rollback)
	c.Short = "Take the last upgrade of this node back"
	c.Long =
		`Takes the last "porthole upgrade" back: one that was finished, or one that was interrupted, as by a power failure.`
	c.Example = `  porthole rollback
  porthole rollback --dry-run`
	return c
}

func command(name string, o *node.UpgradeOptions,
	run func(context.Context, node.UpgradeOptions, func(string)) step.Report) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:  name,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return program.Misused(fmt.Errorf("-o %s: text or json", output))
			}
			start := time.Now()
			say := func(text string) {
				if output == "text" {
					fmt.Fprintf(c.OutOrStdout(), "%5.1fs  %s\n", time.Since(start).Seconds(), text)
				}
			}
			r := run(c.Context(), *o, say)
			if err := end(c.OutOrStdout(), c.ErrOrStderr(), output == "json", r); err != nil {
				return err
			}
			if code := r.Outcome.ExitCode(); code != 0 {
				return program.ExitCode(code)
			}
			return nil
		},
	}

	fs := c.Flags()
	fs.BoolVar(&o.Force, "force", false, "try a version again that was not healthy on this node before")
	fs.BoolVar(&o.DryRun, "dry-run", false, "say which versions would be exchanged, and change nothing")
	fs.DurationVar(&o.Health, "health-timeout", 2*time.Minute,
		"how long the node may take to be Ready with the new programs")
	fs.StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

// end shows how the run ended.
func end(out, problems io.Writer, json bool, r step.Report) error {
	if json {
		text, err := r.JSON()
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	switch {
	case r.Error != "":
		fmt.Fprintf(problems, "porthole: %s\n", r.Error)
	case r.Outcome == step.Unchanged:
		fmt.Fprintf(out, "nothing to do: node %s is of %s\n", r.Node, r.To)
	case r.Outcome == step.Planned:
		fmt.Fprintf(out, "node %s would go from %s to %s\n", r.Node, r.From, r.To)
	default:
		fmt.Fprintf(out, "node %s is of %s, before %s\n", r.Node, r.To, r.From)
	}
	return nil
}
