package latency

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Report is the table in use and the time injected since the start or the last reset of the counters: the
// floor below which nobody gets who makes these calls, since writes to one network run one after another.
type Report struct {
	Profile  string             `json:"profile"`
	Programs map[string]Counter `json:"programs"`
	Networks map[string]Counter `json:"networks"` // writes only, by network id; "" is what belongs to none
}

// Counter sums what was injected.
type Counter struct {
	Writes       int     `json:"writes"`
	WriteSeconds float64 `json:"writeSeconds"`
	Reads        int     `json:"reads,omitempty"`
	ReadSeconds  float64 `json:"readSeconds,omitempty"`
	QueueSeconds float64 `json:"queueSeconds"` // spent waiting for the turn; no part of the floor
}

// Injector owns the table in use, the queues of writes and the sums of what was injected. It is safe for concurrent
// use; its zero value injects nothing. Of the writes to one network one has its turn, in the order in which they came.
type Injector struct {
	mu       sync.Mutex
	table    Table
	lanes    map[string]chan struct{} // by network: who holds the token writes
	programs map[string]Counter
	networks map[string]Counter
	// It is an exponential mean with a weight of one eighth for the newest call.
	own map[string]time.Duration // our own share of a function's calls, smoothed
}

// Set puts another table in use.
func (l *Injector) Set(table Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = table
}

// Report returns what was injected since the last Reset.
func (l *Injector) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Profile: l.table.Name, Programs: map[string]Counter{},
		Networks: map[string]Counter{}}
	if r.Profile == "" {
		r.Profile = "fast"
	}
	maps.Copy(r.Programs, l.programs)
	maps.Copy(r.Networks, l.networks)
	return r
}

// Reset begins the sums again.
func (l *Injector) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.programs, l.networks = nil, nil
}

// current is a copy: a table that is set during a call holds for the next one.
func (l *Injector) current() Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table
}

// lane is the queue of a network. Channels let waiters through in their order.
// The empty network is one queue for all writes whose network is not known.
func (l *Injector) lane(network string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes == nil {
		l.lanes = map[string]chan struct{}{}
	}
	lane, ok := l.lanes[network]
	if !ok {
		lane = make(chan struct{}, 1)
		l.lanes[network] = lane
	}
	return lane
}

// share is how long the function's calls took us ourselves, so that the injected wait can leave room for it.
func (l *Injector) share(function string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own[function]
}

// spent is where the time of a call went: injected, waiting for its turn, and our own.
type spent struct{ cost, queued, own time.Duration }

// account books a finished call.
// Reads count for the program only.
func (l *Injector) account(c Call, t spent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.programs == nil {
		l.programs = map[string]Counter{}
		l.networks = map[string]Counter{}
	}
	if l.own == nil {
		l.own = map[string]time.Duration{}
	}
	// A single slow call moves the share by an eighth of the difference.
	l.own[c.Function] += (t.own - l.own[c.Function]) / 8
	p := l.programs[c.Program]
	if !c.Write {
		p.Reads++
		p.ReadSeconds += t.cost.Seconds()
		l.programs[c.Program] = p
		return
	}

	n := l.networks[c.Network]
	for _, c := range []*Counter{&p, &n} {
		c.Writes++
		c.WriteSeconds += t.cost.Seconds()
		c.QueueSeconds += t.queued.Seconds()
	}

	l.programs[c.Program], l.networks[c.Network] = p, n
}

// Call is what the duration of a call depends on.
type Call struct {
	Program, Function string
	Write             bool
	Network           string // whose writes it has to wait for; "" if not known
	Backends          int    // that the document of a load balancer names
	Balancers         int    // that exist
}

// Injects reports whether calls are made to take time.
func (l *Injector) Injects() bool {
	t := l.current()
	return t != (Table{}) && t.Name != "fast"
}

// Run runs a call so that it takes what the table says, our own work included. What a write does is visible at its end.
// Writes to one network wait for each other, as in HNS; reads do not. A call that fails takes as long as one that does
// not, except a modification that this version does not know (unverified, no. 67). false: ctx has ended before its
// turn, and nothing was run. run reports whether the time that is left is to be waited for.
func (l *Injector) Run(ctx context.Context, c Call, run func() (wait bool)) bool {
	cost := l.current().Cost(c.Function, c.Backends, c.Balancers)
	if cost == 0 {
		run()
		return true
	}
	asked := time.Now()
	if c.Write {
		lane := l.lane(c.Network)
		select {
		case lane <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		defer func() { <-lane }()
	}

	// The wait comes before the work, so that what the call changes is visible at its end; the
	// second wait makes up for what the work took less than expected.
	begin := time.Now()
	SleepUntil(ctx, begin.Add(cost-l.share(c.Function)))
	worked := time.Now()
	if !run() {
		return true
	}
	own := time.Since(worked)
	SleepUntil(ctx, begin.Add(cost))
	l.account(c, spent{cost, begin.Sub(asked), own})
	return true
}
