// Package kubeproxy is the command kube-proxy: the service proxy of a Windows node, with upstream's flags and
// configuration file.
package kubeproxy

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/cli/program"
	node "porthole.dev/porthole/node/kubeproxy"
)

// Command returns the command `porthole kube-proxy`.
func Command() *cobra.Command {
	values := map[string]*value{}
	c := &cobra.Command{
		Use:   "kube-proxy",
		Short: "Serve Kubernetes services on this node",
		Long: "kube-proxy programs cluster IPs, node ports and load balancer addresses as HNS load balancers of a Windows node\n" +
			"(mode kernelspace), or relays them itself on a host without HNS (mode userspace). It takes upstream's flags and\n" +
			"KubeProxyConfiguration files; a flag that is given wins over the file.",
		Example: `  kube-proxy.exe --kubeconfig=C:\k\config --cluster-cidr=10.244.0.0/16 --proxy-mode=kernelspace
  porthole.exe kube-proxy --config=C:\etc\kubernetes\kube-proxy.yaml
  porthole.exe kube-proxy --config=C:\etc\kubernetes\kube-proxy.yaml --cleanup    # removes its load balancers and ends`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := resolve(given(c.Flags(), values),
				host{getenv: os.Getenv, hostname: os.Hostname, readFile: os.ReadFile})
			if err != nil {
				return err
			}
			return start(c, s)
		},
	}

	register(c.Flags(), values)
	program.ExplainFlags(c, gone)
	return c
}

// start prints something and returns, or serves until the context ends, as the settings ask.
func start(c *cobra.Command, s *settings) error {
	if s.version {
		_, err := fmt.Fprintln(c.OutOrStdout(), "Kubernetes "+node.Version+" (Porthole)")
		return err
	}

	ctx, err := setUpLogging(c.Context(), s)
	if err != nil {
		return err
	}

	logger := klog.FromContext(ctx)
	for _, w := range s.warnings {
		logger.Info("Configuration", "warning", w)
	}
	// Writing the configuration and cleaning up need no running proxy.
	if s.writeTo != "" {
		return writeConfig(s)
	}

	if err := s.runnable(); err != nil {
		return err
	}
	if s.initOnly {
		logger.Info("Nothing needs to be set up before the proxy runs; --init-only is done")
		return nil
	}

	if s.cleanup {
		return node.Cleanup(ctx, s.Options)
	}
	return node.Run(ctx, s.Options)
}
