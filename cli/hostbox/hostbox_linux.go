// Package hostbox holds the hidden command that becomes the wineserver of an emulated Windows host.
package hostbox

import (
	"errors"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/wine"
)

// Command is `host-box`. It must be started with confine.CloneFlags, in the network namespace of the host.
func Command() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "host-box", Short: "Be the first process of the box of an emulated Windows host", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return errors.New("--host-dir is needed")
			}
			tools, err := wine.Find()
			if err != nil {
				return err
			}
			return confine.Enter(dir, tools)
		},
	}

	c.Flags().StringVar(&dir, "host-dir", "", "folder of the host (required)")
	return c
}
