// Package status is the command that shows a node, on Windows, and a local cluster, on Linux.
package status

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cluster"
)

// Command is `porthole status`.
func Command() *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show nodes, processes, services and routes of the local cluster",
		Example: "  porthole status\n  porthole status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: only json is known", output)
			}
			layout, err := cluster.NewLayout(dir)
			if err != nil {
				return err
			}
			status, err := cluster.ReadStatus(cmd.Context(), layout)
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(status)
			}
			return status.Print(cmd.OutOrStdout())
		},
	}

	cmd.Flags().StringVar(&dir, "dir", cluster.DefaultDir, "state folder")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for all that is known")
	return cmd
}
