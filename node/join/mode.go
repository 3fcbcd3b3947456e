package join

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/ovn"
)

// hasRoutes reports whether porthole-routes makes a network on the node; if not, others do.
func hasRoutes(network string) bool { return slices.Contains(routes.Modes(), network) }

// bgpConfig returns the file of --bgp-config, nil without one. A later run for which the user's file is gone takes the
// copy that an earlier one made.
func (s *Setup) bgpConfig(installed string) ([]byte, error) {
	if s.BGPConfig == "" {
		return nil, nil
	}
	if s.Network != routes.BGP {
		return nil, fmt.Errorf("--bgp-config is for --network bgp, and the network is %s", s.Network)
	}
	text, err := os.ReadFile(s.BGPConfig)
	if errors.Is(err, fs.ErrNotExist) {
		if copied, err := os.ReadFile(installed); err == nil {
			return copied, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--bgp-config: %w", err)
	}
	return text, nil
}

// checkRoutes has the flags of porthole-routes read before anything depends on them. The file of --bgp-config is the
// user's: the copy is not there yet.
func (s *Setup) checkRoutes(args []string) error {
	if s.CheckRoutes == nil {
		return nil
	}
	args = slices.Clone(args)
	// Only while the user's file is there; otherwise the copy of an earlier run counts.
	for i, a := range args {
		if _, err := os.Stat(s.BGPConfig); err == nil && strings.HasPrefix(a, "--bgp-config=") {
			args[i] = "--bgp-config=" + s.BGPConfig
		}
	}
	if err := s.CheckRoutes(args); err != nil {
		return fmt.Errorf("porthole routes would not start with --network %s: %w", s.Network, err)
	}
	return nil
}

// switchTime is how long Open vSwitch's database may take to answer.
const switchTime = 5 * time.Second

// switchOptions are what leaving needs to know of the mode ovn, as the flags for porthole-routes say it.
// Later flags win, as for porthole-routes itself.
func switchOptions(s *Setup) ovn.Options {
	o := ovn.Options{Node: s.Name, Database: platform.OVSDatabase}
	for _, a := range s.RoutesArgs {
		if db, is := strings.CutPrefix(a, "--ovn-db="); is {
			o.Database = db
		}
		if card, is := strings.CutPrefix(a, "--ovn-uplink="); is {
			o.Uplink = card
		}
	}
	return o
}

// askSwitch returns why this machine's Open vSwitch does not answer.
func askSwitch(ctx context.Context, o ovn.Options) error {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	c, err := ovsdb.Dial(ctx, o.Database)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// leaveSwitch takes out of Open vSwitch what the mode ovn wrote there.
func leaveSwitch(ctx context.Context, s *Setup) error {
	if s.Network != routes.OVN {
		return nil
	}
	if err := ovn.Remove(ctx, switchOptions(s)); err != nil {
		return fmt.Errorf("leaving Open vSwitch: %w", err)
	}
	return nil
}

// leftInSwitch returns what is left of it.
func leftInSwitch(ctx context.Context, s *Setup) (list []string, err error) {
	if s.Network != routes.OVN {
		return nil, nil
	}
	return ovn.Leftovers(ctx, switchOptions(s))
}
