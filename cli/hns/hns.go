// Package hns is the command group that examines the Host Networking Service of a node through its service proxy.
package hns

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/proxy/health"
)

// Command is `porthole hns`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:     "hns",
		Short:   "Look at the Host Networking Service of a node",
		Example: "  porthole hns diff --node win01",
		Args:    cobra.NoArgs,
	}
	c.AddCommand(diffCommand())
	return c
}

// Exit codes of diff, those of diff(1).
const (
	differs = program.ExitCode(1)
	failed  = program.ExitCode(2)
)

// askLimit is long because the proxy lists all of HNS again, which takes time on a slow host.
const askLimit = 2 * time.Minute

func diffCommand() *cobra.Command {
	var address, node, dir, output string
	c := &cobra.Command{
		Use:   "diff",
		Short: "Compare what the services ask for with the load balancers that HNS lists",
		Long: `Asks the service proxy of a node to list HNS again and to compare it with what it wants. Nothing is changed. The lines
are the operations that would make both equal, each with the service that needs it and, if the proxy tried and failed, with
what HNS answered and since when: none means that every service is served as wanted.

Exit code: 0 equal, 1 different, 2 nothing was compared: the proxy could not be asked or could not list HNS.`,
		Example: "  porthole hns diff                 # on the node itself\n" +
			"  porthole hns diff --node win01    # a node of the local cluster",
		RunE: func(c *cobra.Command, args []string) error {
			to := streams{c.OutOrStdout(), c.ErrOrStderr()}
			if len(args) > 0 {
				return to.give(fmt.Errorf("hns diff takes no argument %q; a node is named with --node", args[0]))
			}
			if output != "text" && output != "json" {
				return to.give(fmt.Errorf("-o %s: text and json are known", output))
			}

			client := &http.Client{}
			if node != "" {
				var err error
				if client, err = clientOf(dir, node); err != nil {
					return to.give(err)
				}
			}
			defer client.CloseIdleConnections()
			return diff(c.Context(), client, address, output, to)
		},
	}

	c.Flags().StringVar(&address, "address", "127.0.0.1:10249",
		"metrics address of the service proxy (--metrics-bind-address)")
	c.Flags().StringVar(&node, "node", "", "node of the local cluster, in whose network namespace the address is")
	program.StateDir(c.Flags(), &dir, defaultDir, "state folder of the local cluster")
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

type streams struct{ out, err io.Writer }

// give prints why nothing was compared and returns an error for exit code 2: no failure may end with the code of a
// difference.
func (s streams) give(err error) error {
	fmt.Fprintln(s.err, "porthole:", err)
	return failed
}

// diff prints the difference. It returns the error differs, which only sets the exit code, if there is any.
func diff(ctx context.Context, client *http.Client, address, output string, to streams) error {
	d, err := ask(ctx, client, address)
	if err != nil {
		return to.give(err)
	}
	if output == "json" {
		enc := json.NewEncoder(to.out)
		enc.SetIndent("", "  ")
		err = enc.Encode(d)
	} else {
		err = d.Print(to.out)
	}
	if err != nil {
		return to.give(fmt.Errorf("printing the difference: %w", err))
	}
	if !d.Equal {
		return differs
	}
	return nil
}

// ask gets the difference from the service proxy at address. It tells apart for the user: a proxy that does not
// answer, one that cannot compare now, and a program that has no such page.
func ask(ctx context.Context, client *http.Client, address string) (health.Diff, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var d health.Diff
	if _, _, err := net.SplitHostPort(address); err != nil {
		return d, fmt.Errorf("--address: %w", err)
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/diff", nil)
	if err != nil {
		return d, fmt.Errorf("--address %s: %w", address, err)
	}

	resp, err := client.Do(req)
	if err != nil {
		return d, fmt.Errorf("asking the service proxy: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return d, fmt.Errorf("asking the service proxy: %w", err)
	}

	if resp.StatusCode != http.StatusOK {
		var why struct{ Error string }
		if json.Unmarshal(data, &why) == nil && why.Error != "" {
			return d, fmt.Errorf("the service proxy at %s cannot compare: %s", address, why.Error)
		}
		return d,
			fmt.Errorf(
				"the service proxy at %s has no /diff (%s); is it ours (Linux nodes have upstream's), and in mode kernelspace?", address, resp.Status)
	}

	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	return d, nil
}
