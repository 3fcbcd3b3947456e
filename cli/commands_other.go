//go:build !linux

package cli

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/status"
)

// localCommands are about this machine.
func localCommands() []*cobra.Command { return []*cobra.Command{status.Command()} }
