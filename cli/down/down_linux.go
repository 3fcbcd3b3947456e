// Package down is the command that removes a local cluster.
package down

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/cluster/layout"
)

// Command is `porthole down`.
func Command() *cobra.Command {
	var dir string
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop and remove what `porthole up` made",
		Long: `Stops every process of the local cluster and removes its namespaces, mounts, links, rules and cgroups. What makes the
next start quick (images, the Wine template) stays in the state folder; --purge removes that too.`,
		Example: "  porthole down\n  porthole down --purge",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := layout.New(dir)
			if err != nil {
				return err
			}
			return cluster.Down(cmd.Context(),
				cluster.DownOptions{Layout: l, Purge: purge, Out: cmd.OutOrStdout()})
		},
	}

	program.StateDir(cmd.Flags(), &dir, layout.DefaultDir, "state folder")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the state folder as well")
	return cmd
}
