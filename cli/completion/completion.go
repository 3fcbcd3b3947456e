// Package completion is the command that prints what lets a shell complete commands, flags and names.
package completion

import (
	"io"

	"github.com/spf13/cobra"
)

// shell is one for which cobra has a script.
type shell struct {
	name, title string
	needs       string // what the shell needs for it
	example     string // for this session, then for all
	script      func(root *cobra.Command, out io.Writer) error
}

var shells = []shell{
	{"bash", "Bash", `It needs the package bash-completion of the distribution.`,
		`  source <(porthole completion bash)                                          # in this session
  porthole completion bash > /etc/bash_completion.d/porthole                  # in each new one`,
		func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) }},
	{"zsh", "Zsh", `Completion has to be on: "autoload -U compinit; compinit" in ~/.zshrc.`,
		`  source <(porthole completion zsh)                                           # in this session
  porthole completion zsh > "${fpath[1]}/_porthole"                           # in each new one`,
		func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) }},
	{"fish", "Fish", "It needs fish 3.0 or newer.",
		`  porthole completion fish | source                                           # in this session
  porthole completion fish > ~/.config/fish/completions/porthole.fish         # in each new one`,
		func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) }},
	{"powershell", "PowerShell", "It works in PowerShell 5.0 or newer, on Windows and Linux.",
		`  porthole completion powershell | Out-String | Invoke-Expression             # in this session
  porthole completion powershell >> $PROFILE                                  # in each new one`,
		func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) }},
}

// Command is `porthole completion`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion",
		Short: "Print a script that lets a shell complete commands, flags and names",
		Long: `Prints a script for a shell. With it the shell completes the commands and flags of porthole, values such as the modes of --network,
and the names of emulated hosts.`,
		Example: "  source <(porthole completion bash)\n  porthole completion powershell | Out-String | Invoke-Expression",
	}
	for _, s := range shells {
		c.AddCommand(&cobra.Command{
			Use:     s.name,
			Short:   "Print the script for " + s.title,
			Long:    "Prints the script for " + s.title + ". " + s.needs,
			Example: s.example,
			Args:    cobra.NoArgs,
			RunE:    func(c *cobra.Command, _ []string) error { return s.script(c.Root(), c.OutOrStdout()) },
		})
	}
	return c
}
