package keep

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

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
// is long while the host reports its changes and all is well. S is the status after a pass. Make it with NewLoop. It
// is safe for concurrent use.
type Loop[S any] struct {
	o        LoopOptions[S]
	wake     wakeup.Signal
	news     wakeup.Signal // for Between
	watching atomic.Bool   // Watch has reported that it is established, and has not ended

	passing  sync.Mutex // held during a pass
	mu       sync.Mutex
	status   S
	complete bool // the last pass left nothing to be done again
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
	// Longer returns what is added to the period after a pass with that status; nil: nothing is.
	Longer func(S) time.Duration
	// Burst is how many passes in a fifth of a second do not wait until changes have settled.
	Burst int
	// OnStatus is called after each pass; nil: nobody is. It must not block.
	OnStatus func(S)
	// Between is called between two passes, after hurry or by tryBetween; nil: nothing is. A pass that was asked for
	// comes afterwards.
	Between func(ctx context.Context)
}

// NewLoop returns a Loop that has made no pass yet. Its status is the zero value until then.
func NewLoop[S any](o LoopOptions[S]) *Loop[S] {
	if o.Period <= 0 {
		o.Period = DefaultPeriod
	}
	return &Loop[S]{o: o, wake: wakeup.New(), news: wakeup.New()}
}

// Changed makes the next pass come soon. It never blocks.
func (l *Loop[S]) Changed() { l.wake.Wake() }

// hurry makes Run call Between as soon as no pass is running. It never blocks.
func (l *Loop[S]) hurry() { l.news.Wake() }

// Status returns the outcome of the last pass.
func (l *Loop[S]) Status() S {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Sync makes one pass now.
func (l *Loop[S]) Sync(ctx context.Context) {
	l.passing.Lock()
	defer l.passing.Unlock()

	status, complete := l.o.Pass(ctx, l.Status())
	l.mu.Lock()
	l.status, l.complete = status, complete
	l.mu.Unlock()

	if l.o.OnStatus != nil {
		l.o.OnStatus(status)
	}
}

// Run makes passes until ctx ends. What they made stays.
func (l *Loop[S]) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { l.watch(ctx) })

	p := pace{burst: l.o.Burst}
	for {
		began := time.Now()
		l.Sync(ctx)
		ended := time.Now()
		if !l.rest(ctx, ended.Add(p.gap(ended, ended.Sub(began)))) {
			return
		}
	}
}

// pace decides how soon one pass follows another. One change after a quiet time is worked on at once. While changes
// follow each other, passes take half of the time at most: in large clusters they are long.
type pace struct {
	burst  int
	passes int // since then
	since  time.Time
}

// burstPeriod is the time in which a burst of passes need not settle.
const burstPeriod = 10 * settle

// gap returns how long the next pass waits, after one that ended now and took so long.
func (p *pace) gap(now time.Time, took time.Duration) time.Duration {
	if now.Sub(p.since) > burstPeriod {
		p.since, p.passes = now, 0
	}
	p.passes++
	if p.passes <= p.burst {
		return took
	}
	return max(settle, took)
}

// rest waits until the next pass: for the period, or if a change is reported until the time soonest. It reports false
// if ctx has ended.
func (l *Loop[S]) rest(ctx context.Context, soonest time.Time) bool {
	due := time.NewTimer(l.period())
	defer due.Stop()
	changed := l.wake
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.news:
			l.between(ctx)
		case <-changed:
			changed = nil // one is enough
			due.Reset(time.Until(soonest))
		case <-due.C:
			select {
			case <-l.news:
				l.between(ctx)
			default:
			}
			return true
		}
	}
}

// tryBetween calls Between in this goroutine and returns true, unless a pass over all nodes is running. Then it
// returns false at once.
func (l *Loop[S]) tryBetween(ctx context.Context) bool {
	if !l.passing.TryLock() {
		return false
	}
	defer l.passing.Unlock()
	l.o.Between(ctx)
	return true
}

func (l *Loop[S]) between(ctx context.Context) {
	l.passing.Lock()
	defer l.passing.Unlock()
	l.o.Between(ctx)
}

// period returns how long the next pass may wait.
func (l *Loop[S]) period() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complete && l.watching.Load() {
		if l.o.Longer == nil {
			return l.o.Period
		}
		return l.o.Period + l.o.Longer(l.status)
	}
	return min(l.o.Period, shortPeriod)
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
