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

// lateSink delays events: it sends one when there has been no newer event about any pod for eventDelay, or eventLimit
// after it happened. Pods that start need the processors more than the record of it does. The broadcaster calls it
// from one goroutine, in order, and queues the events that wait.
type lateSink struct {
	record.EventSink
	newest atomic.Int64  // time of the newest event about a pod, in ns since 1970
	closed chan struct{} // closed when events need not wait any more
}

func newLateSink(to record.EventSink) *lateSink {
	return &lateSink{EventSink: to, closed: make(chan struct{})}
}

// noteEvent records that there is an event about a pod.
func (l *lateSink) noteEvent(at time.Time) { l.newest.Store(at.UnixNano()) }

// due returns how long an event of that time still waits. It is never longer than the limits, even if the clock was
// set back.
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
