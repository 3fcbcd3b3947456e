package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
)

// TestFlagPlaceholders: pflag takes the first text between backquotes of a flag's description for the name of its
// value, which --help prints beside the flag. A quoted command or path there is a mistake.
func TestFlagPlaceholders(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.ContainsAny(name, ` \/`) {
				t.Errorf("%s --%s: --help names its value %q", c.CommandPath(), f.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(program.Root(append(nodeCommands(), localCommands()...)...))
}
