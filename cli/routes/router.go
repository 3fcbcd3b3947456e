package routes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/tor"
)

// routerFlags are for whoever runs the router of a cluster in the mode tor. They run on any machine.
type routerFlags struct{ print, check, keep, command string }

func (r *routerFlags) add(fs *pflag.FlagSet) {
	known := strings.Join(tor.Formats(), ", ")
	fs.StringVar(&r.print, "print-router", "",
		"print the routes that the router of a cluster with --mode tor needs, and end: "+known+
			"\n(needs --kubeconfig only, and runs on any machine; with --cluster-cidr it leaves out ranges of nodes that are not inside)")
	fs.StringVar(&r.check, "check-router", "",
		"compare the routes of such a router, from standard input, with those that it needs, name what is missing or wrong,\nand end: "+
			known+
			"; for example vtysh -c 'show ip route json' | porthole routes --check-router frr\n(with --cluster-cidr also what the router has for ranges that no node has)")
	fs.StringVar(&r.keep, "keep-router", "",
		"run on such a router: follow the nodes and keep its static routes inside --cluster-cidr as they need them: "+
			strings.Join(tor.Drivers(), ", ")+
			"\n(needs --kubeconfig and --cluster-cidr; /healthz of --bind fails while something is missing)")
	fs.StringVar(&r.command, "router-command", "",
		"with --keep-router: how the router's command is called, for example \"vtysh --vty_socket /run/frr\" or\n\"ip -n router\"; empty: vtysh or ip")
}

// wanted reports whether one of the flags is given; then nothing but run is to be done.
func (r *routerFlags) wanted() bool { return r.print != "" || r.check != "" || r.keep != "" }

// run does what the flags ask for.
func (r *routerFlags) run(c *cobra.Command, f flags) error {
	given := 0
	for _, flag := range []string{r.print, r.check, r.keep} {
		if flag != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("--print-router, --check-router and --keep-router exclude each other")
	case f.kubeconfig == "":
		return errors.New(
			"--kubeconfig is required: the file with the API server's address and credentials that may list nodes")
	case r.print != "" && !slices.Contains(tor.Formats(), r.print):
		return fmt.Errorf("--print-router %q is not known; known: %s", r.print, strings.Join(tor.Formats(), ", "))
	case r.check != "" && !slices.Contains(tor.Formats(), r.check):
		return fmt.Errorf("--check-router %q is not known; known: %s", r.check, strings.Join(tor.Formats(), ", "))
	}

	cluster, err := f.ranges.Parse()
	if err != nil {
		return err
	}
	list := func(ctx context.Context) ([]table.Wanted, error) {
		return routes.RouterRoutes(ctx, f.kubeconfig, cluster)
	}
	if r.print != "" {
		return printRouter(c, r.print, list)
	}
	if r.keep != "" {
		return r.keepRouter(c.Context(), f, cluster)
	}
	return checkRouter(c, r.check, cluster.Pods, list)
}

// keepRouter keeps the router's routes until the context ends.
func (r *routerFlags) keepRouter(ctx context.Context, f flags, cluster table.Cluster) error {
	if !slices.Contains(tor.Drivers(), r.keep) {
		return fmt.Errorf("--keep-router %q is not known; known: %s (for others, --print-router prints what they need)",
			r.keep, strings.Join(tor.Drivers(), ", "))
	}
	if len(cluster.Pods) == 0 {
		return errors.New(
			"--cluster-cidr is required with --keep-router: static routes inside it that no node needs are removed")
	}
	if err := logging.Set(f.verbosity, ""); err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, klog.Background().WithName("router"))
	return routes.KeepRouter(ctx,
		routes.RouterOptions{Kubeconfig: f.kubeconfig, Format: r.keep, Command: r.command, Cluster: cluster,
			Bind: f.bind})
}

// lister returns the routes that the router needs.
type lister func(context.Context) ([]table.Wanted, error)

// printRouter prints the routes of a router. It prints those that are right also if some must not exist, and then
// returns an error that names them.
func printRouter(c *cobra.Command, format string, list lister) error {
	wanted, err := list(c.Context())
	if err != nil {
		return err
	}
	text, err := tor.Export(format, wanted)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(c.OutOrStdout(), text); err != nil {
		return err
	}
	return refused(wanted)
}

// refused returns an error for each route that must not exist.
func refused(wanted []table.Wanted) error {
	var errs []error
	for _, w := range wanted {
		if w.State == table.Refused {
			errs = append(errs, fmt.Errorf("no route to %s of node %s: %s", w.Dst, w.Node, w.Reason))
		}
	}
	return errors.Join(errs...)
}

// checkRouter compares the router's routes, from the command's input, with those that it needs. Each difference is a
// line of the error.
func checkRouter(c *cobra.Command, format string, pods []netip.Prefix, list lister) error {
	running, err := tor.ReadRunning(format, io.LimitReader(c.InOrStdin(), 64<<20))
	if err != nil {
		return err
	}
	wanted, err := list(c.Context())
	if err != nil {
		return err
	}

	if lines := tor.Check(wanted, running, pods); len(lines) > 0 {
		return fmt.Errorf(
			"the router's routes are not as the nodes need them (`porthole routes --print-router` prints all that it needs):\n  %s", strings.Join(lines, "\n  "))
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "the router has the %d routes that it needs\n", len(wanted))
	return err
}
