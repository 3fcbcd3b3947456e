package kernel

import (
	"container/heap"
	"context"
	"time"
)

// work is the queue of what is to be done, the alarms of what is to be done later, and the calls to HNS in flight.
type work struct {
	*session
	report *report

	queue   taskQueue
	alarms  alarms
	lastSeq uint64

	// answers carries to the loop what is to be done with the answer of a call.
	answers chan func()
	// running calls to HNS. Of them, urgent are for DNS and the API service, for which others wait until urgentUntil.
	running, urgent int
	urgentUntil     time.Time

	pace       pace
	minWriters int
}

// urgentLimit is how long everything else waits for DNS and the API service. Their three load balancers and a few
// endpoints take 3 s where HNS is slow (profile ws2019), and a call that hangs must not hold up the others for long.
const urgentLimit = 10 * time.Second

// enqueue puts a task into the queue. It does nothing if the task is there already or in flight.
func (w *work) enqueue(t *task) {
	if !t.take(enqueue) {
		return
	}
	w.lastSeq++
	t.seq = w.lastSeq
	heap.Push(&w.queue, t)
}

// promote gives a task a better rank. It does nothing if the task has it.
func (w *work) promote(t *task, r rank) {
	if r < t.rank {
		t.rank = r
		heap.Init(&w.queue)
	}
}

// next takes the first task out of the queue. It returns nil if none may start now; then an alarm is set where time
// decides.
func (w *work) next() *task {
	if len(w.queue) == 0 {
		return nil
	}
	first := w.queue[0]
	if !first.rank.urgent() && w.urgent > 0 && time.Now().Before(w.urgentUntil) {
		return nil
	}

	heap.Pop(&w.queue)
	first.take(dequeue)
	return first
}

// busy reports whether a task is queued or in flight.
func (w *work) busy() bool { return len(w.queue) > 0 || w.running > 0 }

// at has the loop do something at a time, or soon after. What is done decides itself whether it still matters.
func (w *work) at(when time.Time, do func()) { heap.Push(&w.alarms, alarm{when, do}) }

// runDue calls what is due, in the order of the times. It is called by the loop only.
func (w *work) runDue() {
	for len(w.alarms) > 0 && !w.alarms[0].at.After(time.Now()) {
		heap.Pop(&w.alarms).(alarm).do()
	}
}

// untilAlarm is how long the loop may sleep.
func (w *work) untilAlarm() time.Duration {
	if len(w.alarms) == 0 {
		return time.Hour
	}
	return max(0, time.Until(w.alarms[0].at))
}

// writers is how many calls may be in flight now. doubtful says that HNS left the last call unanswered.
func (w *work) writers(doubtful bool) int {
	if doubtful {
		return w.minWriters
	}
	return w.pace.writers(w.minWriters)
}

// call runs ask in a goroutine of its own and then finish in the loop. outdated says that what is wanted changed
// meanwhile.
func call[T any](w *work, t *task, ask func(context.Context) T, finish func(answer T, outdated bool)) {
	if !t.take(start) {
		return
	}
	if w.running == 0 {
		w.pace = pace{}
	}
	w.running++
	w.report.begin()

	urgent := t.rank.urgent()
	if urgent {
		if w.urgent == 0 {
			w.urgentUntil = time.Now().Add(urgentLimit)
			w.at(w.urgentUntil, func() {})
		}
		w.urgent++
	}

	begun := time.Now()
	go func() {
		got := ask(w.ctx)
		select {
		case w.answers <- func() {
			w.running--
			w.pace.answered(begun, time.Now())
			if urgent {
				w.urgent--
			}
			changed := t.phase == outdated
			t.take(answer)
			finish(got, changed)
		}:
		case <-w.ctx.Done():
		}
	}()
}

// giveBack frees the memory of an empty queue, which keeps room for the most that it ever held.
func (w *work) giveBack() {
	if len(w.queue) == 0 {
		w.queue = nil
	}
}
