package component

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// Run starts the components, and stops them when ctx ends or one of them fails. It returns the error of the component
// that failed first, also of one whose start ctx has ended; if none failed, what Run of components returned when they
// were stopped, unless that is only that their contexts ended.
func (p Plan) Run(ctx context.Context) error {
	var up []*running
	err := p.start(ctx, &up)
	for _, r := range slices.Backward(up) {
		if stopped := r.stop(ctx); err == nil && !errors.Is(stopped, context.Canceled) {
			err = stopped
		}
	}
	return err
}

// start starts the components, adds them to up, and waits until ctx ends or one of them fails.
func (p Plan) start(ctx context.Context, up *[]*running) error {
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	klog.FromContext(ctx).V(2).Info("Starting components", "plan", p.String())
	for _, c := range p.list {
		r, err := start(working, c, fail)
		if r != nil {
			*up = append(*up, r)
		}
		if working.Err() != nil && ctx.Err() == nil { // another one failed meanwhile
			return context.Cause(working)
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}

	<-working.Done()
	if ctx.Err() != nil { // what fails now does so because it is to end
		return nil
	}
	return context.Cause(working)
}

// running is a component that was started.
type running struct {
	Component
	end  context.CancelCauseFunc // of the context of Start and Run
	done chan struct{}           // closed when Run has returned
	err  error                   // of Run; may be read once done is closed
}

// start starts a component and waits until it is ready. It returns what is to be stopped, nil if there is nothing.
func start(ctx context.Context, c Component, fail context.CancelCauseFunc) (*running, error) {
	own, end := context.WithCancelCause(context.WithoutCancel(ctx))
	// While it starts, the component ends with the program. Afterwards it ends when its turn comes.
	started := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer started()

	if c.Start != nil {
		if err := c.Start(own); err != nil {
			end(nil)
			return nil, err
		}
	}
	r := &running{Component: c, end: end, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		if c.Run == nil {
			return
		}
		if r.err = c.Run(own); r.err != nil && own.Err() == nil {
			fail(r.err)
		}
	}()
	return r, r.await(own)
}

// await waits until the component is ready.
func (r *running) await(ctx context.Context) error {
	if r.Ready == nil {
		return nil
	}
	if r.ReadyWithin > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.ReadyWithin)
		defer cancel()
	}
	err := r.Ready(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("waiting %v for %s to be ready: %w", r.ReadyWithin, r.Name, err)
	}
	return err
}

// stop ends Run, undoes Start, and waits for both, but not for longer than the component may take. It returns what Run
// returned.
func (r *running) stop(ctx context.Context) error {
	within := r.StopWithin
	if within == 0 {
		within = DefaultStop
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()

	r.end(context.Cause(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-r.done
		if r.Stop != nil {
			r.Stop(limited)
		}
	}()
	began := time.Now()
	select {
	case <-stopped:
		return r.err
	case <-limited.Done():
		klog.FromContext(ctx).Error(limited.Err(), "A component does not stop; going on without it", "component",
			r.Name,
			"waited", time.Since(began))
		return nil
	}
}
