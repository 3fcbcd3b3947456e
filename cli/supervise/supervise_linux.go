// Package supervise is the hidden command that keeps the processes of a local cluster running.
package supervise

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/process"
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
			l, err := layout.New(dir)
			if err != nil {
				return err
			}
			return supervise.Run(cmd.Context(), process.Supervisor(l))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", layout.DefaultDir, "state folder of the cluster")
	return cmd
}
