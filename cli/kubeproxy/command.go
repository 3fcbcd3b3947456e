// Package kubeproxy is the command kube-proxy: the service proxy of a Windows node, with upstream's flags and
// configuration file.
package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Command makes `porthole kube-proxy`.
func Command() *cobra.Command {
	f := flags{}
	c := &cobra.Command{
		Use:   "kube-proxy",
		Short: "Serve Kubernetes services on this Windows node with load balancers of HNS",
		Long: "kube-proxy programs cluster IPs, node ports and load balancer addresses as HNS load balancers (mode kernelspace).\n" +
			"It takes upstream's flags and KubeProxyConfiguration files; a flag that is given wins over the file.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := unsupported(); err != nil {
				return err
			}
			cfg, err := f.resolve(c.Flags(), os.Getenv, os.Hostname)
			if err != nil {
				return err
			}
			return run(c.Context(), cfg)
		},
	}
	f.register(c.Flags())
	return c
}

type flags struct {
	config, kubeconfig, master, hostname, mode, network, clusterCIDR, bind, healthz, metrics, sourceVIP string
	enableDSR                                                                                           bool
	gates                                                                                               string
	rootEndpoint                                                                                        string
	verbosity                                                                                           int
}

func (f *flags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.config, "config", "", "KubeProxyConfiguration file (kubeproxy.config.k8s.io/v1alpha1)")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file with the API server's address and our credentials")
	fs.StringVar(&f.master, "master", "", "address of the API server, instead of the kubeconfig's")
	fs.StringVar(&f.hostname, "hostname-override", "", "name of this node; empty: the host's name in lower case")
	fs.StringVar(&f.mode, "proxy-mode", "", "kernelspace (the default)")
	fs.StringVar(&f.network, "network-name", "", "name of the pods' HNS network; also from the environment variable KUBE_NETWORK")
	fs.BoolVar(&f.enableDSR, "enable-dsr", true, "leave the client's address as it is on the way to cluster IP backends (direct server return)")
	fs.StringVar(&f.sourceVIP, "source-vip", "", "source address for overlay networks; not used on L2Bridge")
	fs.StringVar(&f.rootEndpoint, "root-hnsendpoint-name", "", "accepted for upstream's sake; not used")
	fs.StringVar(&f.clusterCIDR, "cluster-cidr", "", "range of pod addresses in the cluster; not used on L2Bridge")
	fs.StringVar(&f.bind, "bind-address", "", "default address of the health server")
	fs.StringVar(&f.healthz, "healthz-bind-address", "", "address and port of /healthz, /livez and /readyz (default 0.0.0.0:10256)")
	fs.StringVar(&f.metrics, "metrics-bind-address", "", "address and port of /metrics and /status (default 127.0.0.1:10249)")
	fs.StringVar(&f.gates, "feature-gates", "", "accepted for upstream's sake; not used")
	fs.IntVarP(&f.verbosity, "v", "v", 0, "log verbosity: 2 one line per plan, 4 each operation")
}

// settings are what a run needs, from flags, file and environment.
type settings struct {
	kubeconfig, master, hostname, network, healthz, metrics string
	enableDSR                                               bool
	qps                                                     float32
	burst                                                   int
	verbosity                                               int
	warnings                                                []string
}

func (f *flags) resolve(fs *pflag.FlagSet, getenv func(string) string, hostname func() (string, error)) (settings, error) {
	file, warnings, err := readConfig(f.config)
	if err != nil {
		return settings{}, err
	}
	s := settings{
		kubeconfig: first(f.kubeconfig, file.ClientConnection.Kubeconfig), master: f.master,
		network: first(f.network, file.Winkernel.NetworkName, getenv("KUBE_NETWORK")),
		healthz: first(f.healthz, file.HealthzBindAddress, first(f.bind, file.BindAddress, "0.0.0.0")+":10256"),
		metrics: first(f.metrics, file.MetricsBindAddress, "127.0.0.1:10249"),
		qps:     file.ClientConnection.QPS, burst: int(file.ClientConnection.Burst),
		enableDSR: f.enableDSR, verbosity: f.verbosity, warnings: warnings,
	}
	if f.config != "" && !fs.Changed("enable-dsr") {
		s.enableDSR = file.Winkernel.EnableDSR
	}
	if v := int(file.Logging.Verbosity); v > 0 && !fs.Changed("v") {
		s.verbosity = v
	}
	if s.qps == 0 {
		s.qps, s.burst = 50, 100
	}
	switch mode := first(f.mode, string(file.Mode), "kernelspace"); mode {
	case "kernelspace":
	default:
		return s, fmt.Errorf("--proxy-mode %q: this program knows kernelspace", mode)
	}
	if s.network == "" {
		return s, errors.New("no HNS network is named: give --network-name, winkernel.networkName or KUBE_NETWORK")
	}
	if s.kubeconfig == "" && s.master == "" {
		return s, errors.New("no API server is named: give --kubeconfig, clientConnection.kubeconfig or --master")
	}
	s.hostname = first(f.hostname, file.HostnameOverride)
	if s.hostname == "" {
		if s.hostname, err = hostname(); err != nil {
			return s, fmt.Errorf("reading the host's name: %w", err)
		}
	}
	s.hostname = strings.ToLower(strings.TrimSpace(s.hostname))
	return s, nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// logging sets klog's verbosity and gives a context that carries its logger.
func logging(ctx context.Context, verbosity int) context.Context {
	var level klog.Level
	_ = level.Set(fmt.Sprint(verbosity)) // a number always parses
	return klog.NewContext(ctx, klog.Background().WithName("kube-proxy"))
}
