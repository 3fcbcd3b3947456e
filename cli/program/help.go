package program

import (
	"fmt"

	"github.com/spf13/cobra"
)

// helpCommand returns `porthole help`. Cobra's own prints the help of everything when it does not know a command, and
// ends well.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show what a command does, its flags and examples",
		Example: "  porthole help join\n  porthole help host create",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string,
			_ cobra.ShellCompDirective) {
			if of, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, below := range of.Commands() {
					if below.IsAvailableCommand() {
						names = append(names, below.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},

		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				of.SuggestionsMinimumDistance = distance
				return usageError{fmt.Errorf("%s has no command %q (%s)", of.CommandPath(), rest[0],
					hint(of, of.SuggestionsFor(rest[0])))}
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}
