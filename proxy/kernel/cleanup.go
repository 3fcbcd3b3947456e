package kernel

import (
	"context"
	"fmt"
	"time"

	"porthole.dev/porthole/proxy/service"
)

// Cleanup deletes everything of ours from HNS. It returns when nothing is left or ctx ends. opts.Take is not used.
func Cleanup(ctx context.Context, opts Options) error {
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
