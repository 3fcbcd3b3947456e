package kube

import (
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// How long an event waits after the newest one about a pod, and at most after it happened.
const (
	eventDelay = time.Second
	eventLimit = 10 * time.Second
)

// lateSink sends an event when nothing has been said of any pod for eventDelay, or eventLimit after it happened: pods that
// start have better use for the processors than the record of it. The broadcaster calls it from one goroutine, in order,
// and keeps what waits.
type lateSink struct {
	record.EventSink
	newest atomic.Int64  // when something was last said of a pod, in ns since 1970
	closed chan struct{} // from here on nothing waits
}

func newLateSink(to record.EventSink) *lateSink {
	return &lateSink{EventSink: to, closed: make(chan struct{})}
}

// told notes that something was said of a pod.
func (l *lateSink) told(at time.Time) { l.newest.Store(at.UnixNano()) }

// due is how long an event that happened then still waits, which is no longer when the clock was set back since.
func (l *lateSink) due(happened, now time.Time) time.Duration {
	quiet := time.Unix(0, l.newest.Load()).Add(eventDelay).Sub(now)
	if wait := min(quiet, happened.Add(eventLimit).Sub(now)); wait <= eventDelay {
		return wait
	}
	return 0
}

func (l *lateSink) wait(e *v1.Event) {
	for wait := l.due(e.LastTimestamp.Time, time.Now()); wait > 0; wait = l.due(e.LastTimestamp.Time, time.Now()) {
		select {
		case <-time.After(wait):
		case <-l.closed:
			return
		}
	}
}

func (l *lateSink) Create(e *v1.Event) (*v1.Event, error) {
	l.wait(e)
	return l.EventSink.Create(e)
}

func (l *lateSink) Patch(e *v1.Event, data []byte) (*v1.Event, error) {
	l.wait(e)
	return l.EventSink.Patch(e, data)
}
