package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"porthole.dev/porthole/web/model"
)

// syncLimit is how long the first lists may take: of 2,000 pods they take about a second.
const syncLimit = 15 * time.Second

// Once waits for the first lists of the API, which somebody else must run, asks each node once and returns all that is
// known. If the API does not answer, Once returns an error.
func (c *Collector) Once(ctx context.Context) (*model.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	if err := c.o.Objects.Ready(ctx); err != nil {
		return nil, fmt.Errorf("asking the API server: %w", err)
	}
	for !c.o.Objects.Synced() {
		wait(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("listing nodes, pods, services and events took longer than %v", syncLimit)
		}
	}

	var tasks sync.WaitGroup
	for _, n := range c.wantedNodes() {
		tasks.Go(func() { c.askAll(ctx, n) })
	}
	tasks.Wait()
	return c.Facts(), nil
}
