package kernel

import (
	"container/heap"
	"net/netip"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// phase of a piece of work. A piece is planned anew whenever it leaves the queue, so that a queue never holds old plans.
//
//	idle ──▶ waiting (for endpoints) ──▶ queued ──▶ running ──▶ idle
//	  └──────────────────────────────────▶┘
type phase uint8

const (
	idle phase = iota
	waiting
	queued
	running
)

// rank orders work: that of services (service.RankDNS and so on), then cleaning up.
type rank uint8

const cleaning = rank(service.RankOther + 1)

// urgent work is what everything else on a node needs.
func (r rank) urgent() bool { return r < service.RankCluster }

// task is what the queue holds.
type task struct {
	phase phase
	rank  rank
	seq   uint64 // among equal ranks the older goes first
	// run plans and starts the task; false when there was nothing to do or to wait for.
	run func() bool
}

// trouble is what went wrong with a piece of work, last.
type trouble struct {
	flaw
	code  uint32
	class hns.Class
	// failures in a row with this reason and code; streak with any.
	failures, streak int
	since, next      time.Time
	// survey: HNS is listed before the next attempt, and that attempt comes at once.
	survey bool
}

// target is one frontend: what is wanted, and how far it is. It stays after nobody wants it until HNS has nothing of ours
// at its key.
type target struct {
	task
	key service.Key
	// f is what is wanted; nil: nothing any more. It is shared with the one who said so.
	f       *service.Frontend
	service string
	// optional ones are of our own making: their failure is not their service's.
	optional bool
	// litter is a load balancer of ours that serves no frontend, to be deleted.
	litter guid
	// again: something changed while it was running. doubted: HNS may or may not have done what was asked last.
	// rewrite: it is to be deleted and created although it is listed as it should be.
	again, doubted, rewrite bool
	blockers                int
	// applied is why the last operation was done; the same reason again right after it means that HNS does otherwise.
	applied string
	done    bool         // HNS is as wanted
	state   health.State // "" without backends
	limits  []flaw
	trouble *trouble
}

// supply is the endpoint of one address that is being made or deleted.
type supply struct {
	task
	addr    netip.Addr
	delete  guid // set when it is to go
	waiters []*target
	trouble *trouble
}

// enduring failures of an endpoint: from this many on, frontends are served without it.
const enduring = 3

// offer is one service.
type offer struct {
	state     service.State
	keys      []service.Key
	triggered []time.Time
	removed   bool
	told      told
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

func (p *Proxy) enqueue(t *task) {
	if t.phase == queued || t.phase == running {
		return
	}
	p.seq++
	t.phase, t.seq = queued, p.seq
	heap.Push(&p.queue, t)
}

// alarm is something to do at a time.
type alarm struct {
	at time.Time
	do func()
}

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

// at has something done by the loop at a time, or soon after. What is done decides itself whether it still matters.
func (p *Proxy) at(when time.Time, do func()) { heap.Push(&p.alarms, alarm{when, do}) }

// ring does what is due.
func (p *Proxy) ring() {
	for len(p.alarms) > 0 && !p.alarms[0].at.After(time.Now()) {
		heap.Pop(&p.alarms).(alarm).do()
	}
}

// nextAlarm is how long the loop may sleep.
func (p *Proxy) nextAlarm() time.Duration {
	if len(p.alarms) == 0 {
		return time.Hour
	}
	return max(0, time.Until(p.alarms[0].at))
}
