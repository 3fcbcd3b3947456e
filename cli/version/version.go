// Package version is the subcommand `porthole version`.
package version

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/node/kubelet"
)

// release is the version of a release, such as v0.1.0. `make release VERSION=…` sets it with the linker; a program
// that somebody built from the sources has none.
var release = "devel"

// Release returns the version of this program; devel if it is of no release.
func Release() string { return release }

// info is what the command prints.
type info struct {
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"` // the release whose kubelet and kube-proxy these programs stand for
	Go         string `json:"go"`
	Platform   string `json:"platform"` // system/architecture
}

// Command returns `porthole version`.
func Command() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Example: `  porthole version
  porthole version -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			i := info{release, kubelet.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			switch output {
			case "json":
				return json.NewEncoder(c.OutOrStdout()).Encode(i)
			case "text":
				_, err := fmt.Fprintf(c.OutOrStdout(), "porthole %s for Kubernetes %s (%s, %s)\n", i.Version,
					i.Kubernetes, i.Go, i.Platform)
				return err
			}
			return fmt.Errorf("--output %q: text and json are known", output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}
