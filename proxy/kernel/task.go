package kernel

import (
	"container/heap"
	"time"

	"porthole.dev/porthole/proxy/service"
)

// phase of a piece of work.
type phase uint8

// A piece of work is planned again whenever it leaves the queue. The transitions, all others are refused and change
// nothing:
//
//	state     trigger   next
//	idle      enqueue   queued     it has work to do
//	idle      wait      waiting    it has work to do once endpoints exist
//	waiting   enqueue   queued     planned again, and the endpoints exist
//	waiting   wait      waiting    planned again, and it needs other endpoints
//	waiting   resume    idle       the endpoints exist, failed for long, or the network is another one
//	queued    dequeue   idle       its turn has come: it is planned
//	idle      start     running    a call to HNS is in flight
//	running   change    outdated   what is wanted changed while the call is in flight
//	outdated  change    outdated
//	running   answer    idle       HNS answered
//	outdated  answer    idle       HNS answered; it is planned once more
const (
	idle phase = iota
	waiting
	queued
	running
	outdated
	phases int = iota
)

type trigger uint8

const (
	enqueue trigger = iota
	wait
	resume
	dequeue
	start
	change
	answer
	triggers int = iota
)

const refused = phase(phases)

// transitions is the table above: the next phase by phase and trigger.
var transitions = [phases][triggers]phase{
	idle: {enqueue: queued, wait: waiting, resume: refused, dequeue: refused, start: running, change: refused,
		answer: refused},
	waiting: {enqueue: queued, wait: waiting, resume: idle, dequeue: refused, start: refused, change: refused,
		answer: refused},
	queued: {enqueue: refused, wait: refused, resume: refused, dequeue: idle, start: refused, change: refused,
		answer: refused},
	running: {enqueue: refused, wait: refused, resume: refused, dequeue: refused, start: refused, change: outdated,
		answer: idle},
	outdated: {enqueue: refused, wait: refused, resume: refused, dequeue: refused, start: refused, change: outdated,
		answer: idle},
}

// inFlight reports whether a call to HNS is in flight.
func (p phase) inFlight() bool { return p == running || p == outdated }

// rank orders work: services by service.RankDNS and so on, then deletions.
type rank uint8

const rankCleanup = rank(service.RankOther + 1)

// urgent work is what everything else on a node needs.
func (r rank) urgent() bool { return r < service.RankCluster }

// task is what the queue holds.
type task struct {
	phase phase
	rank  rank
	seq   uint64 // among equal ranks the older goes first
	owner any    // the *target or *endpointJob that this is part of
}

// take makes a transition. It returns false and changes nothing if the trigger is refused in this phase.
func (t *task) take(what trigger) bool {
	next := transitions[t.phase][what]
	if next == refused {
		return false
	}
	t.phase = next
	return true
}

// taskQueue is a heap.
type taskQueue []*task

func (q taskQueue) Len() int { return len(q) }
func (q taskQueue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].seq < q[j].seq
}
func (q taskQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is for container/heap.
func (q *taskQueue) Push(v any) { *q = append(*q, v.(*task)) }

// Pop is for container/heap.
func (q *taskQueue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return t
}

// alarm is something to do at a time.
type alarm struct {
	at time.Time
	do func()
}

// alarms is a heap.
type alarms []alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push is for container/heap.
func (a *alarms) Push(v any) { *a = append(*a, v.(alarm)) }

// Pop is for container/heap.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	v := (*a)[last]
	(*a)[last] = alarm{}
	*a = (*a)[:last]
	return v
}

var (
	_ heap.Interface = (*taskQueue)(nil)
	_ heap.Interface = (*alarms)(nil)
)
