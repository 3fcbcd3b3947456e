package cli

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/check"
	"porthole.dev/porthole/cli/completion"
	"porthole.dev/porthole/cli/facts"
	"porthole.dev/porthole/cli/firewall"
	"porthole.dev/porthole/cli/hns"
	"porthole.dev/porthole/cli/images"
	"porthole.dev/porthole/cli/importer"
	"porthole.dev/porthole/cli/join"
	"porthole.dev/porthole/cli/kubelet"
	"porthole.dev/porthole/cli/kubeproxy"
	"porthole.dev/porthole/cli/leave"
	"porthole.dev/porthole/cli/manifests"
	"porthole.dev/porthole/cli/ovncontrolplane"
	"porthole.dev/porthole/cli/path"
	"porthole.dev/porthole/cli/report"
	"porthole.dev/porthole/cli/routes"
	"porthole.dev/porthole/cli/service"
	"porthole.dev/porthole/cli/top"
	"porthole.dev/porthole/cli/upgrade"
	"porthole.dev/porthole/cli/version"
	"porthole.dev/porthole/cli/web"
	"porthole.dev/porthole/cli/why"
	"porthole.dev/porthole/node/fit"
)

// nodeCommands are the parts of a node; they exist on Windows and on Linux.
func nodeCommands() []*cobra.Command {
	return []*cobra.Command{
		kubelet.Command(),
		kubeproxy.Command(),
		routes.Command(fit.Fit),
		path.Command(),
		facts.Command(),
		ovncontrolplane.Command(),
		join.Command(),
		leave.Command(),
		upgrade.Command(),
		upgrade.RollbackCommand(),
		service.Command(),
		hns.Command(),
		firewall.Command(),
		check.Command(),
		images.Command(),
		manifests.Command(),
		importer.Command(),
		version.Command(),

		web.Command(),
		why.Command(),
		top.Command(),
		report.Command(),
		completion.Command(),
	}
}
