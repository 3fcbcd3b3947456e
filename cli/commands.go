package cli

import "github.com/spf13/cobra"

// nodeCommands are the parts of a node; they exist on Windows and on Linux.
func nodeCommands() []*cobra.Command {
	return []*cobra.Command{}
}
