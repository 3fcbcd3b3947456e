package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// Latency is how long the calls of one HNS take. The zero value injects nothing.
type Latency struct {
	Name string
	Read time.Duration // enumerate, open, query, and GET of v1
	// Create holds for every kind but load balancers, whose creation takes Balancer, PerBackend for each backend and
	// PerBalancer for each load balancer that is there already.
	Create, Balancer, PerBackend, PerBalancer time.Duration
	// Modify of a load balancer, and for each of its backends. Other kinds take Create.
	Modify, ModifyPerBackend time.Duration
	Delete                   time.Duration
}

const ms = time.Millisecond

// latencies is the table of the published figures: creation of load balancers and endpoints from
// kubernetes/kubernetes#109124, the rest unverified, no. 67.
var latencies = []Latency{
	{Name: "fast"},
	{Name: "ws2025", Read: ms, Create: 15 * ms, Balancer: 20 * ms, PerBackend: ms / 2, Modify: 10 * ms,
		ModifyPerBackend: ms / 2, Delete: 10 * ms},
	{Name: "ws2022-updated", Read: 2 * ms, Create: 30 * ms, Balancer: 30 * ms, PerBackend: 2 * ms, Modify: 2 * ms,
		Delete: 20 * ms},
	{Name: "ws2019", Read: 5 * ms, Create: 200 * ms, Balancer: 700 * ms, PerBackend: 5 * ms, PerBalancer: ms,
		Modify: 5 * ms, Delete: 300 * ms},
	{Name: "ws2019-bad", Read: 10 * ms, Create: 500 * ms, Balancer: 3400 * ms, Modify: 10 * ms, Delete: 2000 * ms},
	{Name: "ws2022-bad", Read: 10 * ms, Create: 500 * ms, Balancer: 5800 * ms, Modify: 10 * ms, Delete: 2000 * ms},
}

// LatencyOf finds a table by its name; "" and "none" are fast, which injects nothing.
func LatencyOf(name string) (Latency, error) {
	if name == "" || name == "none" {
		name = "fast"
	}
	i := slices.IndexFunc(latencies, func(l Latency) bool { return l.Name == name })
	if i < 0 {
		return Latency{}, fmt.Errorf("no latency profile %q: there are %s", name, strings.Join(LatencyNames(), ", "))
	}
	return latencies[i], nil
}

// LatencyNames lists the tables.
func LatencyNames() []string {
	var names []string
	for _, l := range latencies {
		names = append(names, l.Name)
	}
	return names
}

// Cost is what a call takes: Function as in Stats; for load balancers the backends it names and how many others exist.
// Closing a handle takes nothing.
func (l Latency) Cost(function string, backends, present int) time.Duration {
	balancer := strings.Contains(function, "LoadBalancer") || strings.Contains(function, "/policylists/")
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(function, p) })
	}
	switch {
	case has("HcnClose", "IpForwardEntry"):
		return 0
	case has("HcnDelete", "HNSCall DELETE"):
		return l.Delete
	case has("HcnModify") && balancer:
		return l.Modify + time.Duration(backends)*l.ModifyPerBackend
	case has("HcnCreate", "HNSCall POST") && balancer:
		return l.Balancer + time.Duration(backends)*l.PerBackend + time.Duration(present)*l.PerBalancer
	case has("HcnCreate", "HNSCall POST", "HcnModify"):
		return l.Create
	}
	return l.Read
}

// LatencyReport is the table in use and the time injected since the start or the last reset of the counters: the
// floor below which nobody gets who makes these calls, since writes to one network run one after another.
type LatencyReport struct {
	Profile  string                    `json:"profile"`
	Programs map[string]LatencyCounter `json:"programs"`
	Networks map[string]LatencyCounter `json:"networks"` // writes only, by network id; "" is what belongs to none
}

// LatencyCounter sums what was injected.
type LatencyCounter struct {
	Writes       int     `json:"writes"`
	WriteSeconds float64 `json:"writeSeconds"`
	Reads        int     `json:"reads,omitempty"`
	ReadSeconds  float64 `json:"readSeconds,omitempty"`
	QueueSeconds float64 `json:"queueSeconds"` // spent waiting for the turn; no part of the floor
}

// latency injects a table's times.
type latency struct {
	mu       sync.Mutex
	table    Latency
	lanes    map[string]chan struct{} // by network: who holds the token writes
	programs map[string]LatencyCounter
	networks map[string]LatencyCounter
	own      map[string]time.Duration // our own share of a function's calls, smoothed
}

func (l *latency) set(table Latency) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = table
}

func (l *latency) report() LatencyReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := LatencyReport{Profile: l.table.Name, Programs: map[string]LatencyCounter{},
		Networks: map[string]LatencyCounter{}}
	if r.Profile == "" {
		r.Profile = "fast"
	}
	maps.Copy(r.Programs, l.programs)
	maps.Copy(r.Networks, l.networks)
	return r
}

func (l *latency) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.programs, l.networks = nil, nil
}

func (l *latency) current() Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table
}

// lane is the queue of a network. Channels let waiters through in their order.
func (l *latency) lane(network string) chan struct{} {
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
func (l *latency) share(function string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own[function]
}

// spent is where the time of a call went: injected, waiting for its turn, and our own.
type spent struct{ cost, queued, own time.Duration }

// account books a finished call.
func (l *latency) account(program, function, network string, t spent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.programs == nil {
		l.programs, l.networks = map[string]LatencyCounter{}, map[string]LatencyCounter{}
	}
	if l.own == nil {
		l.own = map[string]time.Duration{}
	}
	l.own[function] += (t.own - l.own[function]) / 8
	p := l.programs[program]
	if !isWrite(function) {
		p.Reads++
		p.ReadSeconds += t.cost.Seconds()
		l.programs[program] = p
		return
	}

	n := l.networks[network]
	for _, c := range []*LatencyCounter{&p, &n} {
		c.Writes++
		c.WriteSeconds += t.cost.Seconds()
		c.QueueSeconds += t.queued.Seconds()
	}

	l.programs[program], l.networks[network] = p, n
}

// timed runs a call so that it takes what the table says, our own work included. What a write does is visible at its
// end. Writes to one network wait for each other, as in HNS; reads do not. A call that fails takes as long as one that
// does not, except a modification that this version does not know (unverified, no. 67).
func (s programs) timed(ctx context.Context, who caller, q wire.Request, run func() wire.Answer) wire.Answer {
	table := s.latency.current()
	if table == (Latency{}) || table.Name == "fast" {
		return run()
	}
	function, target := functionName(q), s.target(who, q)
	cost := table.Cost(function, target.Backends, target.Balancers)
	if cost == 0 {
		return run()
	}
	asked := time.Now()
	if isWrite(function) {
		lane := s.latency.lane(target.Network)
		select {
		case lane <- struct{}{}:
		case <-ctx.Done():
			return failure(hnsd.ErrCallFailed)
		}
		defer func() { <-lane }()
	}

	begin := time.Now()
	sleepUntil(ctx, begin.Add(cost-s.latency.share(function)))
	worked := time.Now()
	if s.life.refusal() != nil { // it went while the call was under way
		return failure(hnsd.ErrCallFailed)
	}
	a := run()
	own := time.Since(worked)
	sleepUntil(ctx, begin.Add(cost))
	s.latency.account(who.program, function, target.Network, spent{cost, begin.Sub(asked), own})
	return a
}

// target tells what a call is about.
func (s programs) target(who caller, q wire.Request) hnsd.Target {
	state := s.state.Load()
	if q.Op == wire.HNSCall {
		return state.TargetV1(q.Text[0], q.Text[1], q.Text[2])
	}
	k, fn, ok := q.Op.Object()
	if !ok {
		return state.Target(k, "", false, "")
	}

	id := q.GUID
	switch fn {
	case wire.Create:
		id = ""
		if k == hnsd.Endpoint {
			id, _ = s.handles.get(q.Handle, hnsd.Network, who.process)
		}
	case wire.Modify, wire.Query, wire.Close:
		id, _ = s.handles.get(q.Handle, k, who.process)
	}
	return state.Target(k, id, fn == wire.Create, q.Text[0])
}
