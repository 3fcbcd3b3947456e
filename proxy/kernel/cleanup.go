package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// Cleanup deletes everything of ours from HNS. It returns when nothing is left or ctx ends. opts.Take is not used.
// Without the pods' network, which may never have been made, only load balancers can be left: endpoints end with their
// network.
func Cleanup(ctx context.Context, opts Options) error {
	if _, err := opts.Host.networks.NetworkByName(ctx, opts.NetworkName); hns.IsAbsent(err) {
		return cleanupBalancers(ctx, opts.Host)
	}
	opts.Take = func() ([]service.State, bool) { return nil, true }
	opts.RetryMax = time.Second
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := New(opts)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for {
		left, err := p.Diff(ctx)
		if err == nil && len(left.Ops) == 0 {
			cancel()
			return <-ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cleaning up: %d operations are left: %w", len(left.Ops), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// cleanupBalancers deletes the load balancers whose ids are ours. It returns when none is left or ctx ends.
func cleanupBalancers(ctx context.Context, host Host) error {
	for {
		ids, err := host.ids.LoadBalancerIDs(ctx)
		errs := []error{err}
		for _, id := range ids {
			if !balance.OwnsBalancer(id) {
				continue
			}
			if err := host.balancers.DeleteLoadBalancer(ctx, id); err != nil && !hns.IsAbsent(err) {
				errs = append(errs, fmt.Errorf("deleting load balancer %s: %w", id, err))
			}
		}
		if err = errors.Join(errs...); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cleaning up without the pods' network: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
