package kube

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"porthole.dev/porthole/internal/testkit/bubble"
)

type timedSink struct {
	record.EventSink
	at []time.Time
}

func (s *timedSink) Create(e *v1.Event) (*v1.Event, error) {
	s.at = append(s.at, time.Now())
	return e, nil
}

func (s *timedSink) Patch(e *v1.Event, _ []byte) (*v1.Event, error) { return s.Create(e) }

// TestEventsWait: an event is sent when there is no newer one about any pod, and at the latest after the limit.
func TestEventsWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		after []time.Duration // times of events about pods
		want  time.Duration   // when the first of them is sent
	}{
		{"alone", []time.Duration{0}, eventDelay},
		{"few", []time.Duration{0, 700 * time.Millisecond, 1500 * time.Millisecond}, 2500 * time.Millisecond},
		{"always", steadily(500*time.Millisecond, 40), eventLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				to := &timedSink{}
				l, began := newLateSink(to), time.Now()
				for _, d := range c.after {
					time.AfterFunc(d, func() { l.noteEvent(time.Now()) })
				}
				bubble.Wait()

				if _, err := l.Create(&v1.Event{LastTimestamp: metav1.NewTime(began)}); err != nil {
					t.Fatal(err)
				}
				if got := to.at[0].Sub(began); got != c.want {
					t.Errorf("sent after %s, want %s", got, c.want)
				}
			})
		})
	}
}

func steadily(period time.Duration, n int) (out []time.Duration) {
	for i := range n {
		out = append(out, time.Duration(i)*period)
	}
	return out
}

func TestEventsDoNotWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		to := &timedSink{}
		l, now := newLateSink(to), time.Now()
		l.noteEvent(now.Add(time.Hour)) // and then the clock was set back
		old := &v1.Event{LastTimestamp: metav1.NewTime(now.Add(time.Hour))}
		if _, err := l.Create(old); err != nil || !to.at[0].Equal(now) {
			t.Errorf("an event from before the clock was set back: sent %s, error %v", to.at[0].Sub(now), err)
		}
		l.noteEvent(now)
		close(l.closed)
		if _, err := l.Patch(&v1.Event{LastTimestamp: metav1.NewTime(now)}, nil); err != nil || !to.at[1].Equal(now) {
			t.Errorf("an event at the end: sent %s, error %v", to.at[1].Sub(now), err)
		}
	})
}
