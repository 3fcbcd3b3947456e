// Package hostovs is the hidden command that plays Open vSwitch for Windows on an emulated host, beside Debian's
// daemons.
package hostovs

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/openvswitch"
)

// Command is `porthole host-ovs`, one of the processes of an emulated host that has Open vSwitch.
func Command() *cobra.Command {
	var e openvswitch.Extension
	var addr string
	cmd := &cobra.Command{
		Use: "host-ovs", Hidden: true, Args: cobra.NoArgs,
		Short: "Be the switch extension of Open vSwitch on an emulated host",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if e.Addr, err = netip.ParsePrefix(addr); err != nil {
				return fmt.Errorf("--address: %w", err)
			}
			e.Run(cmd.Context())
			return nil
		},
	}
	cmd.Flags().StringVar(&e.Host.Dir, "dir", "", "folder of the host's Open vSwitch")
	cmd.Flags().StringVar(&e.Uplink, "uplink", "eth1", "network card for the tunnels")
	cmd.Flags().StringVar(&addr, "address", "", "address of the tunnels with the length of its subnet")
	return cmd
}
