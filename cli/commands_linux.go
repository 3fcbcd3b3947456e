package cli

import "github.com/spf13/cobra"

// localCommands make and show clusters and emulated Windows hosts on this machine.
func localCommands() []*cobra.Command {
	return []*cobra.Command{}
}
