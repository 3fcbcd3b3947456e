// Package kubectl is the command that runs the bundled kubectl on the local cluster.
package kubectl

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster/layout"
)

// stateDir takes --dir or --name from the front of the arguments.
func stateDir(args []string) (dir string, rest []string, err error) {
	own := 0
	if len(args) > 0 && (strings.HasPrefix(args[0], "--dir=") || strings.HasPrefix(args[0], "--name=")) {
		own = 1
	} else if len(args) > 1 && (args[0] == "--dir" || args[0] == "--name") {
		own = 2
	}
	fs := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	program.StateDir(fs, &dir, layout.DefaultDir, "")
	return dir, args[own:], fs.Parse(args[:own])
}

// Command is `porthole kubectl`. All arguments go to kubectl, except for a leading `--dir D` or `--name NAME`.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [--dir D | --name NAME] ARGS…",
		Short:              "Run the bundled kubectl on the local cluster",
		Example:            "  porthole kubectl get nodes -o wide\n  porthole kubectl exec -it web -- cmd",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, args, err := stateDir(args)
			if err != nil {
				return err
			}
			l, err := layout.New(dir)
			if err != nil {
				return err
			}
			if _, err := os.Stat(l.Kubeconfig()); err != nil {
				return fmt.Errorf("no cluster in %s: run `porthole up` first", dir)
			}

			env := append(os.Environ(), "KUBECONFIG="+l.Kubeconfig())
			kube := l.Bundled("kube")
			return fmt.Errorf("running %s: %w", kube,
				syscall.Exec(kube, append([]string{"kube", "kubectl"}, args...), env))
		},
	}
}
