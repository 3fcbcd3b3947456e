package nodes

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/slow"
)

// OpenFirewalls has each Windows node with a firewall make the rules for our programs, as an administrator would. It
// runs when the nodes are Ready: the programs make none by themselves, and need none to reach others.
func OpenFirewalls(ctx context.Context, l layout.Layout, c config.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(time.Minute))
	defer cancel()
	for _, n := range c.Nodes() {
		if !n.Windows {
			continue
		}
		if err := runOnNode(ctx, c.Host(l, n), `C:\k\porthole.exe`,
			append([]string{"firewall", "add"}, network.Of(c).Firewall...)...); err != nil {
			return fmt.Errorf("making firewall rules on %s: %w", n.Name, err)
		}
	}
	return nil
}

// runOnNode runs a program of a node to its end.
func runOnNode(ctx context.Context, h host.Host, exe string, args ...string) error {
	cmd, err := h.Program(ctx, exe, args...)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.WaitDelay = time.Second
	if err := cmd.Run(ctx); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
