package origin

import (
	"context"
	"sync"

	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// Once reads the cluster that the flags choose, asks each node once, and returns all that is known.
func (f Flags) Once(ctx context.Context) (*model.Facts, error) {
	_, facts, err := f.Asked(ctx)
	return facts, err
}

// Asked is Once for callers that have more questions to the nodes. What the API said is as it was then.
func (f Flags) Asked(ctx context.Context) (*Origin, *model.Facts, error) {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	o, err := f.Open(func() {})
	if err != nil {
		return nil, nil, err
	}
	tasks.Go(func() { o.Run(ctx) })
	facts, err := collect.New(o.Options).Once(ctx)
	return o, facts, err
}
