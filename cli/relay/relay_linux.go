// Package relay is the hidden command that carries connections into a local cluster.
package relay

import (
	"github.com/spf13/cobra"

	"porthole.dev/porthole/cluster/relay"
)

// Command is `porthole relay`, one of the processes of a local cluster.
func Command() *cobra.Command {
	var texts []string
	cmd := &cobra.Command{
		Use: "relay", Hidden: true, Args: cobra.NoArgs,
		Short: "Carry connections from this machine's loopback into a local cluster",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var maps []relay.Map
			for _, t := range texts {
				m, err := relay.ParseMap(t)
				if err != nil {
					return err
				}
				maps = append(maps, m)
			}
			return relay.Run(cmd.Context(), maps)
		},
	}

	cmd.Flags().StringArrayVar(&texts, "map", nil, "LISTEN=TARGET@NETNS, may be repeated")
	return cmd
}
