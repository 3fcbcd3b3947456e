// Package web is the command that shows a cluster in a browser.
package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/origin"
	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/page"
	"porthole.dev/porthole/web/serve"
)

type options struct {
	from   origin.Flags
	port   uint16
	faults bool
}

// Command is `porthole web`.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "web",
		Short: "Show the cluster in a browser, live",
		Long: `Serves a page of the cluster on this machine's loopback and prints its link. The page shows nodes, pods, routes and services as they are now, why
something is not right, and which command shows more. It works without the internet.

The token in the link works once; then a new link is printed, for another browser. The page only reads, unless --allow-faults is given.

In a local cluster web asks the nodes itself. Elsewhere give --kubeconfig of a user who may list nodes, pods, services, EndpointSlices and events,
and get nodes/proxy: the kubelets answer for their nodes.`,
		Example: "  porthole web\n  porthole web --kubeconfig=admin.conf --port=8080\n  porthole web --allow-faults",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout()) },
	}

	f := c.Flags()
	o.from.AddTo(f)
	f.Uint16Var(&o.port, "port", 0, "port on 127.0.0.1; 0: any that is free")
	f.BoolVar(&o.faults, "allow-faults", false, "let the page make the Host Networking Service of emulated hosts fail")
	return c
}

func (o options) run(ctx context.Context, out io.Writer) error {
	var collector *collect.Collector
	from, err := o.from.Open(func() { collector.Changed() })
	if err != nil {
		return err
	}
	if o.faults && from.Hosts == nil {
		return program.Misused(fmt.Errorf(
			"--allow-faults: faults are for emulated hosts of a local cluster, not with --kubeconfig"))
	}
	collector = collect.New(from.Options)

	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return fmt.Errorf("listening for browsers (--port): %w", err)
	}
	defer listener.Close()
	files, err := page.Files()
	if err != nil {
		return err
	}

	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" { // else the user decides
		debug.SetGCPercent(garbage)
	}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { from.Run(ctx) })
	tasks.Go(func() { collector.Run(ctx) })
	ask := &questions{from: from, collector: collector, flags: o.from, faults: o.faults}
	return serve.Run(ctx, serve.Options{Listener: listener, Page: files, Source: collector,
		Linked: printLinks(out, from.Name), Questions: ask.all()})
}

// garbage is how much of it is allowed in percent of what is in use: with 2,000 pods 12 MB are, and a collection takes
// some milliseconds.
const garbage = 30

// printLinks returns a function that prints each link on a line of its own.
func printLinks(out io.Writer, name string) func(string) {
	first := true
	return func(link string) {
		if first {
			fmt.Fprintf(out, "%s is shown at\n  %s\n(until this program ends: Ctrl+C)\n", name, link)
		} else {
			fmt.Fprintf(out, "That link was used. For another browser:\n  %s\n", link)
		}
		first = false
	}
}
