package host

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/host"
)

// words are what follows the host's name on the command line of some commands.
var words = map[string][]string{
	"ctr": host.InventoryKinds,
	"hns": {"dump", "rules", "stats", "verify", "fault", "scenario", "latency", "service", "lose", "repair", "pool",
		"dns"},
}

// completeHosts offers shells the names of hosts, and the words that may follow one.
func completeHosts(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch {
	case c.Name() == "create":
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && words[c.Name()] != nil:
		return words[c.Name()], cobra.ShellCompDirectiveNoFileComp
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveDefault
	}

	o := common{dir: c.Flag("dir").Value.String()}
	s, err := o.store()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	hosts, err := s.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
