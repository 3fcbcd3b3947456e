// Package token is the command group for bootstrap tokens of a local cluster, with which machines join it.
package token

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/manifests"
)

// Command is `porthole token`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:     "token",
		Short:   "Make tokens with which machines join the local cluster",
		Long:    "Makes bootstrap tokens of the local cluster of `porthole up`, as `kubeadm token` does of others.",
		Example: "  porthole token create --print-join-command",
		Args:    cobra.NoArgs,
	}
	c.AddCommand(createCommand())
	return c
}

func createCommand() *cobra.Command {
	var dir, output string
	var life time.Duration
	var print bool
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a token and print it",
		Long: `Makes a token and prints it. With --print-join-command it prints the command line that makes a machine a node of the cluster, for
example an emulated host.`,
		Example: `  porthole token create --print-join-command
  porthole token create --ttl 10m -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: only json is known", output)
			}
			if life <= 0 {
				return fmt.Errorf("--ttl %v: a token that has expired is of no use", life)
			}
			l, err := layout.New(dir)
			if err != nil {
				return err
			}
			t, line, err := manifests.CreateToken(c.Context(), l, life)
			if err != nil {
				return err
			}

			if output == "json" {
				return json.NewEncoder(c.OutOrStdout()).
					Encode(map[string]any{"token": t.String(), "expires": t.Expires, "joinCommand": line})
			}
			if !print {
				line = t.String()
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), line)
			return err
		},
	}
	program.StateDir(c.Flags(), &dir, layout.DefaultDir, "state folder of the cluster")
	c.Flags().DurationVar(&life, "ttl", 24*time.Hour, "how long the token is valid")
	c.Flags().BoolVar(&print, "print-join-command", false, "print the whole command line for the machine that joins")
	c.Flags().StringVarP(&output, "output", "o", "", "json")
	return c
}
