// Package facts is the command that prints what a machine says of its network.
package facts

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/node/facts"
)

// Command is `porthole facts`.
func Command() *cobra.Command {
	var o facts.Options
	c := &cobra.Command{
		Use:   "facts",
		Short: "Print this machine's routes, neighbours, service rules and HNS objects as JSON, for `porthole path`",
		Long: "facts reads and prints. It changes nothing, opens no port and needs none of our programs to run. It runs on Windows nodes, on\n" +
			"Linux nodes and on Linux routers between them. What it could not read is under \"unread\", with the reason.",
		Example: "  porthole.exe facts > win01.json                    # on a Windows node, as an administrator\n" +
			"  porthole facts > lin01.json                        # on a Linux node, as root\n" +
			"  porthole facts --name=rack1 --routes= > rack1.json # on a router\n" +
			"  porthole path --facts=win01.json,lin01.json web-7f db-0:5432    # on any machine with a kubeconfig\n" +
			"  porthole facts --ovn-nb=unix:/var/run/ovn/ovnnb_db.sock --ovn-sb=unix:/var/run/ovn/ovnsb_db.sock > lin01.json\n" +
			"                                                     # mode ovn: on the machine with OVN's databases",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := facts.Read(c.Context(), o)
			if err != nil {
				return err
			}
			enc := json.NewEncoder(c.OutOrStdout())
			enc.SetIndent("", "  ")
			return enc.Encode(n)
		},
	}

	f := c.Flags()
	f.StringVar(&o.Name, "name", "",
		"name of this node in the API, or of the router; empty: the host's name in lower case")
	f.StringSliceVar(&o.ConfDirs, "cni-conf-dir", facts.DefaultConfDirs(),
		"folders with CNI configurations that the container runtime reads")
	f.StringVar(&o.Routes, "routes", "127.0.0.1:10261",
		"address of the status of porthole routes (its --bind), which tells the mode; empty: none runs here")
	f.StringVar(&o.OVS, "ovn-db", platform.OVSDatabase,
		"database of this host's Open vSwitch, read on nodes of the mode ovn only; empty: it is not read")
	f.StringVar(&o.NB, "ovn-nb", "",
		"OVN's northbound database, tcp:HOST:6641 or unix:PATH; on one machine, together with --ovn-sb")
	f.StringVar(&o.SB, "ovn-sb", "", "OVN's southbound database, tcp:HOST:6642 or unix:PATH")
	c.MarkFlagsRequiredTogether("ovn-nb", "ovn-sb")
	return c
}
