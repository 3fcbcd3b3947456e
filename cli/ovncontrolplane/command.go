// Package ovncontrolplane is the command ovn-control-plane: it keeps OVN's northbound database for a cluster whose
// nodes run `porthole routes --mode ovn`.
package ovncontrolplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/ovn/controller"
)

type flags struct {
	kubeconfig, nb, sb, bind string
	ranges                   program.Ranges
	verbosity                int
}

// Command makes `porthole ovn-control-plane`.
func Command() *cobra.Command {
	f := flags{}
	c := &cobra.Command{
		Use:   "ovn-control-plane",
		Short: "Keep OVN's northbound database for the cluster (mode ovn)",
		Long: "ovn-control-plane keeps OVN's northbound database as the cluster wants it: a logical switch for each node, a port for each pod\n" +
			"with the address that it writes into the pod's annotation \"ovn\", and a load balancer for each service, in place of kube-proxy.\n" +
			"It deletes the chassis of nodes that are gone. One works at a time: others wait for a lock of the database. What it made stays\n" +
			"when it ends. The nodes run `porthole routes --mode ovn`.",
		Example: "  porthole ovn-control-plane --kubeconfig=/etc/kubernetes/ovn.conf --nb=tcp:10.99.0.11:6641 --sb=tcp:10.99.0.11:6642",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.kubeconfig == "" || f.nb == "" || f.sb == "" {
				return errors.New("--kubeconfig, --nb and --sb are required")
			}
			return run(c.Context(), f)
		},
	}

	fs := c.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig file with the API server's address and our credentials (required)")
	fs.StringVar(&f.nb, "nb", "",
		"OVN's northbound database, tcp:HOST:PORT or unix:PATH; several, separated by commas, are tried in turn (required)")
	fs.StringVar(&f.sb, "sb", "",
		"OVN's southbound database, from which the chassis of deleted nodes are removed (required)")
	fs.StringVar(&f.ranges.Pods, "cluster-cidr", "",
		"range of all pods: a node whose pod range lies outside gets no logical switch; empty: any range that a node can have counts")
	fs.StringVar(&f.ranges.Services, "service-cidr", "", "range of all services, likewise")
	fs.StringVar(&f.ranges.NodeBits, program.NodeBitsFlag, "", program.NodeBitsHelp)
	fs.StringVar(&f.bind, "bind", "127.0.0.1:10262", "address and port of /healthz and /status; empty: none")
	program.LogFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", 0, "log verbosity")
	return c
}

func run(ctx context.Context, f flags) error {
	if err := logging.Set(f.verbosity, ""); err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, klog.Background().WithName("ovn-control-plane"))
	ranges, err := f.ranges.Parse()
	if err != nil {
		return err
	}
	client, _, err := kube.Load(f.kubeconfig, "porthole-ovn-control-plane", 50, 100)
	if err != nil {
		return err
	}
	var c *controller.Controller
	cluster, err := kube.NewEverything(ctx, client, "porthole-ovn-control-plane", func() { c.Changed() })
	if err != nil {
		return err
	}
	c = controller.New(controller.Options{NB: f.nb, SB: f.sb, Cluster: cluster, Ranges: ranges})
	stop, err := serve(ctx, f.bind, c)
	if err != nil {
		return err
	}
	defer stop()

	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { cluster.Run(ctx) })
	c.Run(ctx)
	return nil
}

// serve answers health and status until stop is called.
func serve(ctx context.Context, bind string, c *controller.Controller) (stop func(), err error) {
	if bind == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("serving status at %s (--bind): %w", bind, err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if s := c.Status(); s.Error != "" {
			http.Error(w, s.Error, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(c.Status()) // who asked may be gone
	})
	return httpserve.Start(listener, mux, func(err error) {
		klog.FromContext(ctx).Error(err, "Serving status ended", "address", bind)
	}), nil
}
