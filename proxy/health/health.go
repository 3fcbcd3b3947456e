// Package health says how the service proxy fares: /healthz, /livez and /readyz, metrics under upstream's names, a status
// for every service, and events on the services that cannot be served. Healthy means programmed: a proxy that runs and
// cannot set up a service is not healthy, and says which service it is.
//
//	loop ── Pass, Service, Programmed, Repaired ──▶ Server ─▶ /healthz /livez /readyz   (health address)
//	changes of the API ── Changed, Taken ─────────▶        ─▶ /metrics /status /diff    (metrics address)
//	calls to HNS ── Called ───────────────────────▶        ─▶ events on the services
//
// A change of one service costs one entry of a table, however many services there are.
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
	// blindLimit: a host that could not be observed for this long makes /healthz and /readyz bad: two of upstream's sync
	// periods, after which its own page turns bad too.
	blindLimit = 60 * time.Second
	// observeLimit is four full checks, which come every 30 s.
	observeLimit = 2 * time.Minute
	// liveLimit is for a loop that shows no sign: no pass, no call to the host, no service done.
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
	// Eligible says whether the node may have traffic from outside: false once it is being deleted. Nil: always.
	Eligible func() bool
	// Events takes events on services; nil: none are written.
	Events Events
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server keeps what the loop tells and answers for it. It may be used from many goroutines.
type Server struct {
	options Options
	started time.Time
	metrics *metrics

	mu    sync.Mutex
	last  Pass
	ended time.Time // when the last pass did
	sign  time.Time // the last sign of life
	table table
	voice voice
	// lacking are services with a traffic policy Local and no endpoint here, by policy.
	lacking map[string]map[string]bool
	// leftOut counts backends beyond MaxBackends, by service; those with none are not in it.
	leftOut map[string]int
	omitted int // their sum
}

// New makes a server.
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
		options: o, started: o.Now(), sign: o.Now(), metrics: newMetrics(o.Families), table: newTable(), voice: newVoice(o.Node),
		lacking: map[string]map[string]bool{policyInternal: {}, policyExternal: {}}, leftOut: map[string]int{},
	}
}

// Pass takes the outcome of a pass.
func (s *Server) Pass(p Pass) {
	now := s.options.Now()
	s.mu.Lock()
	s.last, s.ended, s.sign = p, now, now
	due := s.voice.due(&s.table, now)
	s.mu.Unlock()
	s.metrics.pass(p, now)
	s.say(due)
}

// Service takes the status of one service that changed.
func (s *Server) Service(status ServiceStatus) {
	now := s.options.Now()
	s.mu.Lock()
	s.sign = now
	s.table.set(status, now)
	said := s.voice.hear(status, now)
	s.metrics.services(&s.table)
	s.mu.Unlock()
	s.say(said)
}

// Programmed takes the time of what led to a change of endpoints that is now in the host's data plane.
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

// Alive notes that the loop turns although it has nothing to report, for example while it waits for the API.
func (s *Server) Alive() {
	now := s.options.Now()
	s.mu.Lock()
	s.sign = now
	s.mu.Unlock()
}

// Serving says whether this node serves a service, as far as a load balancer in front of the cluster should know: the
// host could be observed of late and no failure of this service is old. Failures of other services do not matter.
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

// blind gives the reasons why nothing can be known of the host. The caller holds mu.
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

// unhealthy gives the reasons why the node cannot serve anything well; none means healthy. A service that fails is no
// reason: load balancers in front of the cluster take a node away from all services on the word of /healthz.
func (s *Server) unhealthy() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blind(s.options.Now())
}

// unready gives the reasons why not everything is served; none means ready.
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

// dead gives the reason why the loop does not turn; none means that it lives.
func (s *Server) dead() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Now().Sub(s.sign) > liveLimit {
		return []string{"the loop has stood still since " + s.sign.Format(time.RFC3339)}
	}
	return nil
}

func (s *Server) eligible() bool { return s.options.Eligible == nil || s.options.Eligible() }
