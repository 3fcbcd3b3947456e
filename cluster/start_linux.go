package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/credentials"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/nodes"
	"porthole.dev/porthole/cluster/plan"
	"porthole.dev/porthole/cluster/process"
	"porthole.dev/porthole/cluster/steps"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/slow"
)

// start makes everything that the processes need and starts their supervisor.
func start(ctx context.Context, l layout.Layout, c config.Cluster, r *steps.Report) error {
	if err := makeFolders(l, c); err != nil {
		return err
	}
	lost, err := supervise.LostPower(l.RunDir())
	if err != nil {
		return err
	}
	if lost {
		if err := forgetUnwritten(l, c); err != nil {
			return err
		}
		r.Done("the machine was not shut down: images of nodes, and Wine templates, are made anew")
	}
	if err := config.Write(l, c); err != nil {
		return err
	}

	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"images for the local registry", func() error { return ensureImages(ctx, l) }},
		{"certificates and kubeconfigs", func() error { return credentials.Ensure(l, c) }},
		{"network namespaces and links", func() error { return nodes.EnsureNetwork(l, c) }},
		{"Windows hosts", func() error { return nodes.EnsureWindowsHosts(ctx, l, c) }},
		{"configuration of every node", func() error { return nodes.Write(l, c) }},
		{"processes", func() error { return startProcesses(l, c) }},
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		r.Done(s.what)
	}
	return nil
}

func ensureImages(ctx context.Context, l layout.Layout) error {
	cmd := exec.CommandContext(ctx, l.Bundled("registry"), "build", "--out", l.Images())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func startProcesses(l layout.Layout, c config.Cluster) error {
	tools, err := wine.Find()
	if err != nil && c.WindowsNodes > 0 {
		return err
	}
	processes, err := plan.Processes(l, c, tools)
	if err != nil {
		return err
	}

	// What an earlier run has reached is not true of this one: the machine may have restarted.
	reached := []string{l.Applied(), l.Checked()}
	for _, n := range c.Nodes() {
		reached = append(reached, l.Ready(n.Name))
	}
	for _, reached := range reached {
		if err := os.Remove(reached); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if slow.Machine() {
		plan.OneByOne(processes, l, c)
	}
	if err := supervise.WriteProcesses(l.RunDir(), processes); err != nil {
		return err
	}
	_, err = supervise.Spawn(process.Supervisor(l))
	return err
}
