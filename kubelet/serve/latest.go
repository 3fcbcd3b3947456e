package serve

import (
	"context"
	"errors"
	"sync"
	"time"
)

// latest keeps the newest answer to a question that may be slow. There is one question at a time; readers get what is
// there, so that a runtime that hangs makes answers old and not slow. It asks only when somebody reads.
type latest[T any] struct {
	ask func(context.Context) (T, error)

	mu     sync.Mutex
	value  T
	known  bool
	at     time.Time
	failed error         // of the last try
	asking chan struct{} // closed when the question under way is answered; nil while there is none
}

// get returns an answer that is at most statsAge old, or an older one when a new one takes long. It is shared: do not
// change it.
func (l *latest[T]) get(ctx context.Context) (T, error) {
	l.mu.Lock()
	known, fresh := l.known, time.Since(l.at) < statsAge
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
	select {
	case <-l.start():
	case <-timer.C:
	case <-ctx.Done():
	}
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

// start asks unless that is under way, and returns what is closed at its end.
func (l *latest[T]) start() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking != nil {
		return l.asking
	}
	done := make(chan struct{})
	l.asking = done
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), takeLimit)
		defer cancel()
		value, err := l.ask(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed = err; err == nil {
			l.value, l.known, l.at = value, true, time.Now()
		}
		l.asking = nil
		close(done)
	}()
	return done
}
