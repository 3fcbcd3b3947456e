package health

import (
	"fmt"
	"time"

	"porthole.dev/porthole/proxy/service"
)

// table keeps the status of every service. A service that is programmed takes one small entry.
type table struct {
	all map[string]record
	// bad has the time, in Unix nanoseconds, since when services are not programmed. It stays while a service goes
	// from one bad state to another.
	bad map[string]int64
	// withProblems are the services with problems.
	withProblems map[string][]service.Problem

	count    map[State]int
	problems map[string]int // how many there are, by reason
}

type record struct {
	state                 State
	frontends, programmed int32
	since                 int64   // Unix nanoseconds
	detail                *detail // nil if programmed
}

type detail struct {
	reason, message string
	code            uint32
	failures        int
}

func newTable() table {
	return table{all: map[string]record{}, bad: map[string]int64{}, withProblems: map[string][]service.Problem{},
		count: map[State]int{}, problems: map[string]int{}}
}

// set takes in a status. Without a time in it, the state began now.
func (t *table) set(s ServiceStatus, now time.Time) {
	t.uncount(s.Service)
	if s.Removed {
		delete(t.all, s.Service)
		delete(t.bad, s.Service)
		return
	}

	r := record{state: s.State, frontends: int32(s.Frontends), programmed: int32(s.Programmed),
		since: s.Since.UnixNano()}
	if s.Since.IsZero() {
		r.since = now.UnixNano()
	}

	if s.State == Programmed {
		if _, was := t.bad[s.Service]; was && len(t.bad) == 1 {
			t.bad = map[string]int64{} // an emptied map keeps its memory
		}
		delete(t.bad, s.Service)
	} else {
		r.detail = &detail{reason: s.Reason, message: s.Message, code: s.Code, failures: s.Failures}
		if _, was := t.bad[s.Service]; !was {
			t.bad[s.Service] = r.since
		}
	}

	t.all[s.Service] = r
	t.count[s.State]++
	if len(s.Problems) > 0 {
		t.withProblems[s.Service] = s.Problems
		for _, p := range s.Problems {
			t.problems[p.Reason]++
		}
	}
}

// uncount takes a service out of the counts.
func (t *table) uncount(name string) {
	if old, known := t.all[name]; known {
		t.count[old.state]--
	}
	for _, p := range t.withProblems[name] {
		if t.problems[p.Reason]--; t.problems[p.Reason] == 0 {
			delete(t.problems, p.Reason)
		}
	}
	delete(t.withProblems, name)
}

// reason says in words why a bad service is bad.
func (t *table) reason(name string) string {
	r := t.all[name]
	since := time.Unix(0, t.bad[name]).UTC().Format(time.RFC3339)
	if r.detail == nil || r.detail.message == "" {
		return fmt.Sprintf("service %s is %s since %s", name, r.state, since)
	}
	return fmt.Sprintf("service %s is %s since %s: %s", name, r.state, since, r.detail.message)
}
