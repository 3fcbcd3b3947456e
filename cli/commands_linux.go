package cli

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/down"
	"porthole.dev/porthole/cli/host"
	"porthole.dev/porthole/cli/hostbox"
	"porthole.dev/porthole/cli/hostclear"
	"porthole.dev/porthole/cli/hosthcsd"
	"porthole.dev/porthole/cli/hosthnsd"
	"porthole.dev/porthole/cli/hostovs"
	"porthole.dev/porthole/cli/hostscm"
	"porthole.dev/porthole/cli/kubectl"
	"porthole.dev/porthole/cli/relay"
	"porthole.dev/porthole/cli/status"
	"porthole.dev/porthole/cli/supervise"
	"porthole.dev/porthole/cli/token"
	"porthole.dev/porthole/cli/up"
)

// localCommands make and show clusters and emulated Windows hosts on this machine.
func localCommands() []*cobra.Command {
	return []*cobra.Command{
		up.Command(), down.Command(), status.Command(), kubectl.Command(), token.Command(),
		host.Command(), relay.Command(), supervise.Command(),
		hosthnsd.Command(), hosthcsd.Command(), hostscm.Command(), hostclear.Command(), hostbox.Command(),
		hostovs.Command(),
	}
}
