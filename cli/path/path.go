// Package path is the command that follows one packet hop by hop, over facts that machines reported, without sending
// it.
package path

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/node/facts"
	"porthole.dev/porthole/path"
)

// limit bounds the gathering of facts. A program under Wine takes some seconds to start on a busy machine.
const limit = time.Minute

// Exit codes. What they stand for is printed already.
const (
	wrong  = program.ExitCode(1) // a hop is wrong
	failed = program.ExitCode(2) // the packet could not be followed
)

type options struct {
	kubeconfig, dir, protocol, output string
	dirGiven                          bool
	files                             []string
	probe                             bool
}

// Command is `porthole path`.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "path POD|NODE|ADDRESS DESTINATION[:PORT]",
		Short: "Follow one packet hop by hop without sending it (or with --probe), and name the first hop that is wrong",
		Long: "path prints each hop of a packet, with the endpoint, load balancer, route or neighbour that decides, and of its answer. It sends\n" +
			"no packet. The first hop that is wrong is named, with what should be there and who makes it.\n\n" +
			"Pods and services are NAMESPACE/NAME; without a namespace they are in \"default\". In a local cluster path asks the nodes itself.\n" +
			"Elsewhere give --kubeconfig: Porthole's kubelets answer for their nodes, to users who may get nodes/proxy. Or give with --facts the\n" +
			"files that `porthole facts` made on the nodes: those of the source and the destination at least, and of routers between them.\n" +
			"A machine of which there is nothing is not known, which path says; it is not wrong.\n" +
			"With --probe one packet is sent too, in a local cluster, and watched on every machine that it passes: a connection of TCP is begun and\n" +
			"ended, or a datagram of UDP sent. The first hop that it does not pass is named.\n" +
			"Exit code 1: a hop is wrong, or the probe was lost. 2: the packet could not be followed. A hop that is not known is marked with ? and changes nothing.",
		Example: "  porthole path web-7f kube-system/kube-dns:53 --protocol=udp\n" +
			"  porthole path lin01 10.244.1.7:80\n" +
			"  porthole path default/web-7f win02 -o json\n" +
			"  porthole path web-7f shop/cart:80 --probe\n" +
			"  porthole path --kubeconfig=admin.conf --facts=win01.json,lin01.json web-7f db-0:5432",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), limit)
			defer cancel()
			o.dirGiven = c.Flags().Changed("dir") || c.Flags().Changed("name")
			return o.run(ctx, path.Request{From: args[0], To: args[1], Protocol: o.protocol}, c.OutOrStdout(),
				c.ErrOrStderr())
		},
	}

	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig of a user who may list nodes, pods, services and EndpointSlices; empty: that of the local cluster, whose nodes are asked")
	program.StateDir(f, &o.dir, defaultDir, "state folder of the local cluster")
	f.StringSliceVar(&o.files, "facts", nil,
		"files that porthole facts printed on nodes and routers, in place of asking a local cluster")
	f.StringVar(&o.protocol, "protocol", "tcp", "tcp, udp or sctp")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.BoolVar(&o.probe, "probe", false, "send one packet and watch where it passes; in a local cluster")
	program.Values(c, "protocol", "tcp", "udp", "sctp")
	return c
}

func (o options) run(ctx context.Context, r path.Request, out, errs io.Writer) error {
	all, unknown, err := o.facts(ctx)
	var result path.Result
	if err == nil {
		result, err = path.Follow(all, r)
	}
	var sent *path.Probe
	if err == nil && o.probe {
		sent, err = o.send(ctx, all, r, result)
	}

	if unknown != "" {
		fmt.Fprintln(errs, "porthole:", unknown)
	}
	if err == nil && o.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(document{result, result.First(), unknown, sent})
	} else if err == nil {
		if err = result.Print(out); err == nil && sent != nil {
			err = sent.Print(out, result)
		}
	}
	if err != nil {
		fmt.Fprintln(errs, "porthole:", err)
		return failed
	}
	if result.First() != nil || sent != nil && !sent.Arrived() {
		return wrong
	}
	return nil
}

// document is what -o json prints: the ways, the first wrong hop of them, which machines did not answer, and what
// became of a probe.
type document struct {
	path.Result
	First   *path.Hop   `json:"first,omitempty"`
	Unknown string      `json:"unknown,omitempty"`
	Probe   *path.Probe `json:"probe,omitempty"`
}

// send sends a probe. It is refused where this machine is none of the cluster's.
func (o options) send(ctx context.Context, all *path.Facts, r path.Request, result path.Result) (*path.Probe, error) {
	if o.kubeconfig != "" || len(o.files) > 0 {
		return nil, errors.New("--probe: probes are sent in local clusters only, not with --kubeconfig and --facts")
	}
	ends, err := path.FindEnds(all, r)
	if err != nil {
		return nil, err
	}
	return sendProbe(ctx, o.dir, all, ends, result)
}

// facts asks the cluster and its machines. unknown says why of machines that did not answer.
func (o options) facts(ctx context.Context) (all *path.Facts, unknown string, err error) {
	if o.output != "text" && o.output != "json" {
		return nil, "", fmt.Errorf("-o %s: text and json are known", o.output)
	}
	all = &path.Facts{}
	kubeconfig := o.kubeconfig
	if kubeconfig == "" {
		if len(o.files) > 0 {
			return nil, "", errors.New("--kubeconfig is required with --facts")
		}
		kubeconfig = filepath.Join(o.dir, "kubeconfig")
	}

	switch local := o.kubeconfig == "" || o.dirGiven; {
	case len(o.files) > 0:
		all.Nodes, err = read(o.files)
	case local:
		all.Nodes, unknown, err = localFacts(ctx, o.dir)
	}
	if err != nil {
		return nil, "", err
	}
	if all.Cluster, err = facts.ReadCluster(ctx, kubeconfig); err != nil {
		return nil, unknown, err
	}
	if all.Nodes == nil {
		all.Nodes, unknown = askKubelets(ctx, kubeconfig, all.Cluster.Nodes)
	}
	return all, unknown, nil
}

// read reads files that `porthole facts` printed.
func read(files []string) (nodes []path.Node, err error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var n path.Node
		err = json.Unmarshal(data, &n)
		if err == nil && n.Name == "" {
			err = errors.New("it has no name")
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not what `porthole facts` prints: %w", file, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
