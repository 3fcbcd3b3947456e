// Package supervise is the hidden command that keeps the processes of a local cluster running.
package supervise

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/platform"
)

// Command is `porthole supervise`; `porthole up` starts it.
func Command() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "supervise", Hidden: true, Args: cobra.NoArgs,
		Short: "Keep the processes of a local cluster running",
		RunE: func(cmd *cobra.Command, _ []string) error {
			platform.SetUmask()
			layout, err := cluster.NewLayout(dir)
			if err != nil {
				return err
			}
			return supervise.Run(cmd.Context(), cluster.SupervisorOptions(layout))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", cluster.DefaultDir, "state folder of the cluster")
	return cmd
}
