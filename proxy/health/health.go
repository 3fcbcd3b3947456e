// Package health reports the state of the service proxy: /healthz, /livez and /readyz, metrics under upstream's names,
// a status for every service, and events about services that cannot be served. Ready means programmed: a proxy that
// runs and cannot set up a service is not ready, and names the service.
//
//	loop ── Pass, Service, Programmed, Repaired ──▶ Server ─▶ /healthz /livez /readyz   (health address)
//	changes of the API ── Changed, Taken ─────────▶        ─▶ /metrics /status /diff    (metrics address)
//	calls to HNS ── Called ───────────────────────▶        ─▶ events on the services
//
// A change of one service costs one entry of a table, regardless of how many services there are.
package health

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits of health.
const (
	// readyLimit: a service that could not be programmed for this long makes /readyz bad.
	readyLimit = 30 * time.Second
	// blindLimit: a host that could not be observed for this long makes /healthz and /readyz bad. It is two of
	// upstream's sync periods, after which upstream's page turns bad too.
	blindLimit = 60 * time.Second
	// observeLimit is four full checks, which come every 30 s.
	observeLimit = 2 * time.Minute
	// liveLimit is for a loop that shows no sign of life: no pass, no call to the host, no service programmed.
	liveLimit = 5 * time.Minute
	// reasonsShown bounds the reasons in one answer; the rest are counted.
	reasonsShown = 20
)

// Families of addresses, as upstream labels its metrics.
const (
	IPv4 = "IPv4"
	IPv6 = "IPv6"
)

// Options of a Server. All are optional.
type Options struct {
	// Mode is what /proxyMode answers; "" means kernelspace.
	Mode string
	// Node is this node's name, for events.
	Node string
	// Families whose passes the metrics count; nil means IPv4.
	Families []string
	// MaxBackends is how many a frontend can have in this mode; 0: any number. The rest are counted in the metrics.
	MaxBackends int
	// Eligible reports whether the node may have traffic from outside: false once it is being deleted. Nil: always.
	Eligible func() bool
	// Events receives events about services; nil: none are written.
	Events Events
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server keeps what the loop reports and answers requests about it. It is safe for concurrent use.
type Server struct {
	options Options
	started time.Time
	metrics *metrics

	mu    sync.Mutex
	last  Pass
	ended time.Time // when the last pass ended
	sign  time.Time // the last sign of life
	table table

	events eventThrottle
	// lacking are services with a traffic policy Local and no endpoint here, by policy.
	lacking map[string]map[string]bool
	// leftOut counts the backends beyond MaxBackends by service, without services that have none.
	leftOut map[string]int
	omitted int // their sum
}

// New returns a server that has seen no pass.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mode == "" {
		o.Mode = "kernelspace"
	}
	if len(o.Families) == 0 {
		o.Families = []string{IPv4}
	}
	return &Server{
		options: o, started: o.Now(), sign: o.Now(), metrics: newMetrics(o.Families), table: newTable(),
		events:  newEventThrottle(o.Node),
		lacking: map[string]map[string]bool{policyInternal: {}, policyExternal: {}}, leftOut: map[string]int{},
	}
}

// Pass takes in the outcome of a pass.
func (s *Server) Pass(p Pass) {
	now := s.options.Now()
	s.mu.Lock()
	s.last, s.ended, s.sign = p, now, now
	due := s.events.due(&s.table, now)
	s.mu.Unlock()
	s.metrics.pass(p, now)
	s.write(due)
}

// Service takes in the status of one service that changed.
func (s *Server) Service(status ServiceStatus) {
	now := s.options.Now()
	s.mu.Lock()
	s.sign = now
	s.table.set(status, now)
	events := s.events.statusChanged(status, now)
	s.metrics.services(&s.table)
	s.mu.Unlock()
	s.write(events)
}

// Programmed notes that a change of endpoints, which was made at triggered, is now in the host's data plane.
func (s *Server) Programmed(triggered time.Time) {
	s.metrics.programmed(s.options.Now().Sub(triggered))
}

// Repaired counts objects that a full check found lost or altered.
func (s *Server) Repaired(kind string, n int) {
	s.metrics.repaired.WithLabelValues(kind).Add(float64(n))
}

// Called counts a call to HNS; result is "ok" or a class of error.
func (s *Server) Called(kind, result string, took time.Duration) {
	s.Alive()
	s.metrics.calls.WithLabelValues(kind, result).Inc()
	s.metrics.callTime.WithLabelValues(kind).Observe(took.Seconds())
}

// Alive notes that the loop runs although it has nothing to report, for example while it waits for the API.
func (s *Server) Alive() {
	now := s.options.Now()
	s.mu.Lock()
	s.sign = now
	s.mu.Unlock()
}

// Serving reports whether this node serves a service, for a load balancer in front of the cluster: the host could be
// observed recently, and the service has not been failing for long. Failures of other services do not count.
func (s *Server) Serving(name string) bool {
	now := s.options.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.blind(now)) > 0 {
		return false
	}
	bad, is := s.table.bad[name]
	return !is || now.Sub(time.Unix(0, bad)) <= readyLimit
}

// blind returns the reasons why the state of the host is not known. The caller holds mu.
func (s *Server) blind(now time.Time) []string {
	var reasons []string
	if !s.last.Ready {
		reason := "no pass was complete yet"
		if s.last.Err != nil {
			reason += ": " + s.last.Err.Error()
		}
		return []string{reason}
	}
	switch since := now.Sub(s.last.Observed); {
	case s.last.Err != nil && since > blindLimit:
		reasons = append(reasons, s.last.Err.Error())
	case since > observeLimit && now.Sub(s.sign) > observeLimit:
		reasons = append(reasons, fmt.Sprintf("the host was last checked at %s", s.last.Observed.Format(time.RFC3339)))
	}
	return reasons
}

// unhealthy returns the reasons why the node cannot serve anything well; none means healthy. A failing service does
// not count: load balancers in front of the cluster take a node away from all services if /healthz is bad.
func (s *Server) unhealthy() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blind(s.options.Now())
}

// unready returns the reasons why not everything is served; none means ready.
func (s *Server) unready() []string {
	now := s.options.Now()
	s.mu.Lock()
	defer s.mu.Unlock()

	reasons := s.blind(now)
	var late []string
	for name, since := range s.table.bad {
		if now.Sub(time.Unix(0, since)) > readyLimit {
			late = append(late, name)
		}
	}
	slices.Sort(late)

	for i, name := range late {
		if i == reasonsShown {
			return append(reasons, fmt.Sprintf("and %d more services", len(late)-i))
		}
		reasons = append(reasons, s.table.reason(name))
	}
	return reasons
}

// dead returns the reason why the loop seems to stand still; none means that it runs.
func (s *Server) dead() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Now().Sub(s.sign) > liveLimit {
		return []string{"the loop has stood still since " + s.sign.Format(time.RFC3339)}
	}
	return nil
}

func (s *Server) eligible() bool { return s.options.Eligible == nil || s.options.Eligible() }
