package serve

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of waiting for an answer.
const (
	staleWait = 500 * time.Millisecond // how long a reader waits for a new one if there is an old one
	firstWait = 10 * time.Second       // how long a reader waits if there is none
	renewWait = 5 * time.Second        // how long a reader waits for a newer answer that it needs (getSince)
	takeLimit = 2 * time.Minute        // how long the runtime may take
)

// latest keeps the newest answer of a call that may be slow. One call is made at a time. Readers get the answer that
// there is, so that a runtime that hangs makes answers old and not slow. It is safe for concurrent use.
type latest[T any] struct {
	ask    func(context.Context) (T, error)
	maxAge time.Duration // an older answer is replaced when somebody reads

	mu     sync.Mutex
	value  T
	known  bool
	at     time.Time
	asked  time.Time     // when the call that answered was begun
	failed error         // of the last call
	asking chan struct{} // closed when the call under way has ended; nil if there is none
}

// get returns an answer that is at most maxAge old, or an older one if a new one takes longer than staleWait. If there
// is none yet, it waits for firstWait. The answer is shared: the caller must not change it.
func (l *latest[T]) get(ctx context.Context) (T, error) {
	l.mu.Lock()
	known := l.known
	fresh := time.Since(l.at) < l.maxAge
	value := l.value
	l.mu.Unlock()
	if known && fresh {
		return value, nil
	}

	wait := firstWait
	if known {
		wait = staleWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()

	// The call goes on if the reader stops waiting: its answer is the next reader's.
	select {
	case <-l.start():
	case <-timer.C:
	case <-ctx.Done():
	}

	// An old answer is given even if the last call failed.
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known:
		return l.value, nil
	case l.failed != nil:
		return l.value, l.failed
	}
	return l.value, errors.New("the runtime does not answer")
}

// getSince returns the answer to a call that began at since or later. If there is none within renewWait, it returns
// the newest one.
func (l *latest[T]) getSince(ctx context.Context, since time.Time) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, renewWait)
	defer cancel()
	for range 2 { // the call under way may have begun too early
		l.mu.Lock()
		enough := l.known && !l.asked.Before(since)
		l.mu.Unlock()
		if enough {
			break
		}
		select {
		case <-l.start():
		case <-ctx.Done():
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known {
		return l.value, nil
	}
	return l.value, cmp.Or(l.failed, errors.New("the runtime does not answer"))
}

// answered returns when the newest answer was given, the zero time if there is no answer yet.
func (l *latest[T]) answered() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// newest returns the newest answer without asking for another one; ok is false if there is none yet. The answer is
// shared: the caller must not change it.
func (l *latest[T]) newest() (value T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.known
}

// start makes a call unless one is under way. The channel is closed when that call has ended.
func (l *latest[T]) start() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking != nil {
		return l.asking
	}

	done := make(chan struct{})
	l.asking = done
	// The call has a context of its own, because several readers wait for it.
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), takeLimit)
		defer cancel()
		asked := time.Now()
		value, err := l.ask(ctx)

		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed = err; err == nil {
			l.value = value
			l.known = true
			l.at = time.Now()
			l.asked = asked
		}
		l.asking = nil
		close(done)
	}()
	return done
}
