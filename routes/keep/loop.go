package keep

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
)

// settle collects changes that come together, and bounds how fast two writers can undo each other's work.
const settle = 20 * time.Millisecond

// shortPeriod is how often a pass comes while changes may go unreported or something is not as it should be.
const shortPeriod = time.Second

// watchAgain is the wait before a subscription that ended is made again. Meanwhile the short period finds changes.
var watchAgain = retry.Backoff{First: 5 * time.Second, Max: 5 * time.Second}

// Loop repeats passes over something of the host: one at the start, one after each change that was reported, and one
// each period. To read a host costs processor time, above all where there are many emulated ones; therefore the period
// is long while the host reports its changes and all is well. S is the status after a pass. Make it with NewLoop. It is
// safe for concurrent use.
type Loop[S any] struct {
	o        LoopOptions[S]
	wake     wakeup.Signal
	watching atomic.Bool // Watch has reported that it is established, and has not ended

	passing sync.Mutex // held during a pass
	mu      sync.Mutex
	status  S
}

// LoopOptions of a Loop.
type LoopOptions[S any] struct {
	// Subject is what Watch watches, for the log: "routes". Required.
	Subject string
	// Pass observes, plans and applies, and returns the status afterwards; before is that of the pass before. If
	// complete is false, the next pass comes within a second. It is called once at a time. Required.
	Pass func(ctx context.Context, before S) (after S, complete bool)
	// Watch calls changed once when it is established and after each change of what Pass observes, from any goroutine,
	// until ctx ends or an error. Required.
	Watch func(ctx context.Context, changed func()) error
	// Period is how often a pass comes although no change was reported; zero means DefaultPeriod. It is at most one
	// second while Watch is not established or the last pass was not complete.
	Period time.Duration
	// OnStatus is called after each pass; nil: nobody is. It must not block.
	OnStatus func(S)
}

// NewLoop returns a Loop that has made no pass yet. Its status is the zero value until then.
func NewLoop[S any](o LoopOptions[S]) *Loop[S] {
	if o.Period <= 0 {
		o.Period = DefaultPeriod
	}
	return &Loop[S]{o: o, wake: wakeup.New()}
}

// Changed makes the next pass come soon. It never blocks.
func (l *Loop[S]) Changed() { l.wake.Wake() }

// Status returns the outcome of the last pass.
func (l *Loop[S]) Status() S {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Sync makes one pass now.
func (l *Loop[S]) Sync(ctx context.Context) { _ = l.pass(ctx) }

// errAgain says that a pass is to be repeated soon.
var errAgain = errors.New("something is not as it should be, or its changes may go unreported")

// pass makes one pass. It returns errAgain if the next one is to come within a second.
func (l *Loop[S]) pass(ctx context.Context) error {
	l.passing.Lock()
	defer l.passing.Unlock()
	status, complete := l.o.Pass(ctx, l.Status())
	l.mu.Lock()
	l.status = status
	l.mu.Unlock()

	if l.o.OnStatus != nil {
		l.o.OnStatus(status)
	}
	if !complete || !l.watching.Load() {
		return errAgain
	}
	return nil
}

// Run makes passes until ctx ends. What they made stays.
func (l *Loop[S]) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { l.watch(ctx) })

	again := min(l.o.Period, shortPeriod)
	loop.Loop{Pass: l.pass, Wake: l.wake, Apart: settle, Period: l.o.Period,
		Retry: retry.Backoff{First: again, Max: again}}.Run(ctx)
}

// watch subscribes to changes of the host for as long as ctx lives.
func (l *Loop[S]) watch(ctx context.Context) {
	for failures := 1; ; failures++ {
		err := l.o.Watch(ctx, func() {
			l.watching.Store(true)
			l.Changed()
		})
		l.watching.Store(false)
		l.Changed() // the period is another one now
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Watching the host ended; trying again", "subject", l.o.Subject)
		if !wakeup.Pause(ctx, watchAgain.Wait(failures)) {
			return
		}
	}
}
