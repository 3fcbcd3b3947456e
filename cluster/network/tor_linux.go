package network

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
)

// tor gives the router the routes that `porthole routes --print-router ip` prints, as the operator of a
// top-of-rack router would do. Nodes have no routes to each other's pods.
var tor = Mode{Settle: feedRouter}

// feedRouter runs the printed lines, which are `ip` commands, as a shell script in the router's namespace. It stops at
// the first error. Routes that the router has besides stay.
func feedRouter(ctx context.Context, l layout.Layout, c config.Cluster, _ *kube.Cluster) error {
	var complaint bytes.Buffer
	print := exec.CommandContext(ctx, l.Porthole(), "routes", "--print-router", "ip", "--kubeconfig", l.Kubeconfig())
	print.Stderr = &complaint
	lines, err := print.Output()
	if err != nil {
		return fmt.Errorf("printing the routes of the router: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}

	var out bytes.Buffer
	shell := exec.CommandContext(ctx, "sh", "-e")
	shell.Stdin = bytes.NewReader(lines)
	shell.Stdout = &out
	shell.Stderr = &out
	if err := platform.StartInNetns(c.RouterNetns(), shell); err != nil {
		return fmt.Errorf("giving the router its routes: %w", err)
	}
	if err := shell.Wait(); err != nil {
		return fmt.Errorf("giving the router its routes: %w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
