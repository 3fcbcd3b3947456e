package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/preflight"
	"porthole.dev/porthole/cluster/steps"
	"porthole.dev/porthole/cluster/supervise"
)

// UpOptions of Up; all are required.
type UpOptions struct {
	Layout  layout.Layout
	Cluster config.Cluster
	Out     io.Writer
}

// Up brings the cluster up and returns when it works. On a running cluster it changes nothing; after an interrupted Up
// it finishes the work.
func Up(ctx context.Context, o UpOptions) error {
	l, c := o.Layout, o.Cluster
	if err := preflight.Check(ctx, l, c); err != nil {
		return err
	}
	unlock, err := lock(l)
	if err != nil {
		return err
	}
	defer unlock()

	r := steps.Begin(o.Out)
	running, err := isRunning(l, c)
	if err != nil {
		return err
	}
	if !running {
		if err := start(ctx, l, c, r); err != nil {
			return err
		}
	} else {
		r.Done("the cluster is running already")
	}
	return settle(ctx, l, c, r)
}

// isRunning reports whether the cluster in this folder is up. Another configuration in the same folder is an error.
func isRunning(l layout.Layout, c config.Cluster) (bool, error) {
	active, _ := supervise.Supervisors(l.RunDir())
	had, err := config.Read(l)
	if errors.Is(err, os.ErrNotExist) || err == nil && active.PID == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if had != c {
		return false, fmt.Errorf("a cluster with other settings runs in %s: `porthole down` first", l.Dir)
	}
	return true, nil
}
