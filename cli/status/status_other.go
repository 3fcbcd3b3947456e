//go:build !linux

// Package status is the command that shows a node, on Windows, and a local cluster, on Linux.
package status

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/service"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
)

// node is what `porthole status -o json` prints.
type node struct {
	Services []*services.Status `json:"services"`
	Boot     bootrecord.Boot    `json:"boot"`
}

// Command is `porthole status`.
func Command() *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the services of this node, and how far they are in this boot",
		Long: `Shows the services of this node and the boot record: whether the pod network, the load balancers of services and the pods are
those of this boot. No pod starts before its pod network is.`,
		Example: "  porthole status\n  porthole status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: only json is known", output)
			}
			m, err := services.Connect()
			if err != nil {
				return err
			}
			defer m.Close()
			n := node{}
			if n.Services, err = service.Found(m, services.Programs); err != nil {
				return err
			}
			if n.Boot, err = bootrecord.ReadBoot(dir, platform.BootID()); err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(n)
			}
			if err := service.Print(cmd.OutOrStdout(), n.Services); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), n.Boot)
			return err
		},
	}

	cmd.Flags().StringVar(&dir, "dir", bootrecord.Folder, "folder of the boot record")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for all that is known")
	return cmd
}
