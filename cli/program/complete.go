package program

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Values lets shells complete a flag of c with these values. TestCompletion looks at each flag that has some.
func Values(c *cobra.Command, flag string, values ...string) {
	// An error says that c has no such flag: then there is nothing to complete.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completed gives a command, and those below it, what shells complete the same way everywhere: the formats of -o, and
// no names of files where a command takes no arguments.
func completed(c *cobra.Command) {
	if f := c.Flags().ShorthandLookup("o"); f != nil && f.Name == "output" {
		words := strings.FieldsFunc(f.Usage, func(r rune) bool { return r < 'a' || r > 'z' })
		formats := slices.DeleteFunc(words,
			func(w string) bool { return !slices.Contains([]string{"text", "json", "yaml"}, w) })
		slices.Sort(formats)
		Values(c, f.Name, slices.Compact(formats)...)
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && c.Args != nil && c.Args(c, []string{"a"}) != nil &&
		c.Args(c, []string{"a", "b"}) != nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, below := range c.Commands() {
		completed(below)
	}
}
