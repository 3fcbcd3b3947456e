// Package kubectl is the command that runs the bundled kubectl on the local cluster.
package kubectl

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cluster"
)

// Command is `porthole kubectl`. All arguments go to kubectl, except for a leading `--dir D`.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [--dir D] ARGS…",
		Short:              "Run the bundled kubectl on the local cluster",
		Example:            "  porthole kubectl get nodes -o wide\n  porthole kubectl exec -it web -- cmd",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := cluster.DefaultDir
			if len(args) >= 2 && args[0] == "--dir" {
				dir, args = args[1], args[2:]
			} else if len(args) > 0 && strings.HasPrefix(args[0], "--dir=") {
				dir, args = strings.TrimPrefix(args[0], "--dir="), args[1:]
			}

			layout, err := cluster.NewLayout(dir)
			if err != nil {
				return err
			}
			if _, err := os.Stat(layout.Kubeconfig()); err != nil {
				return fmt.Errorf("no cluster in %s: run `porthole up` first", dir)
			}

			env := append(os.Environ(), "KUBECONFIG="+layout.Kubeconfig())
			program := layout.Bundled("kube")
			return fmt.Errorf("running %s: %w", program, syscall.Exec(program, append([]string{"kube", "kubectl"}, args...), env))
		},
	}
}
