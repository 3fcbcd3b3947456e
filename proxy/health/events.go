package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/proxy/service"
)

// Events writes events about services; internal/networkapi does, through node/kubeproxy. It must not block.
type Events interface {
	ServiceEvent(e Event)
}

// Event about one service.
type Event struct {
	Service string // namespace/name
	Warning bool
	// Reason is one CamelCase word, Text is for people.
	Reason, Text string
}

// Reasons of events about the state; problems bring their own.
const (
	ReasonFailed    = "FailedToProgramLoadBalancer"
	ReasonRecovered = "ProgrammedLoadBalancer"
	// ReasonHealthCheck is upstream's.
	ReasonHealthCheck = "FailedToStartServiceHealthcheck"
)

const (
	// failuresBeforeEvent: one or two failures in a row are common with HNS and go away.
	failuresBeforeEvent = 3
	// repeatEvent is how long the API server keeps events (--event-ttl); one that still holds is written again after
	// that.
	repeatEvent = time.Hour
	// One service may cause serviceBurst events at once and one more per serviceRefill; all services together have the
	// other limits.
	serviceBurst, serviceRefill = 5, 2 * time.Minute
	allBurst, allRefill         = 50, time.Second
	// repeatCheck is how often events that must be written again are looked for.
	repeatCheck = time.Minute
)

// eventThrottle decides which events are written. It is pure: it remembers what was written, and time is an argument.
type eventThrottle struct {
	node     string
	services map[string]*serviceEvents
	// heldBack services have an event that the rate limit did not let through.
	heldBack  map[string]bool
	bucket    bucket
	rechecked time.Time // when the bad services were last gone through
}

// serviceEvents is what was written about one service. Only services with something to write about have one.
type serviceEvents struct {
	bucket bucket
	// cause of the failure that was written, and when; "" if none was.
	cause string
	at    time.Time
	// problems that were written, with the time; only those that the service still has.
	problems map[service.Problem]time.Time
	last     ServiceStatus
}

func newEventThrottle(node string) eventThrottle {
	return eventThrottle{node: node, services: map[string]*serviceEvents{}, heldBack: map[string]bool{},
		bucket: bucket{left: allBurst}}
}

// statusChanged returns the events that a status leads to.
func (t *eventThrottle) statusChanged(s ServiceStatus, now time.Time) []Event {
	written := t.services[s.Service]
	if s.Removed {
		delete(t.services, s.Service)
		delete(t.heldBack, s.Service)
		return nil
	}

	if written == nil {
		if len(s.Problems) == 0 && (s.State != Failed || s.Failures < failuresBeforeEvent) {
			return nil
		}
		written = &serviceEvents{bucket: bucket{left: serviceBurst}, problems: map[service.Problem]time.Time{}}
		t.services[s.Service] = written
	}
	written.last = s
	return t.events(s.Service, written, now)
}

// due returns the events that were held back and may be written now, and those that must be written again.
func (t *eventThrottle) due(all *table, now time.Time) []Event {
	var out []Event
	for _, name := range sortedKeys(t.heldBack) {
		if !t.bucket.has(allBurst, allRefill, now) {
			return out
		}
		if written := t.services[name]; written != nil {
			out = append(out, t.events(name, written, now)...)
		}
	}

	if now.Sub(t.rechecked) < repeatCheck {
		return out
	}
	t.rechecked = now
	for name := range all.bad {
		if written := t.services[name]; written != nil && !t.heldBack[name] {
			out = append(out, t.events(name, written, now)...)
		}
	}
	return out
}

func sortedKeys(m map[string]bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// events returns what is to be written about the last status of a service, as far as the rate limits allow.
func (t *eventThrottle) events(name string, written *serviceEvents, now time.Time) []Event {
	var out []Event
	heldBack := false
	write := func(warning bool, reason, text string) bool {
		if !written.bucket.has(serviceBurst, serviceRefill, now) || !t.bucket.has(allBurst, allRefill, now) {
			heldBack = true
			return false
		}
		written.bucket.left--
		t.bucket.left--
		out = append(out, Event{Service: name, Warning: warning, Reason: reason, Text: t.onNode(text)})
		return true
	}

	s := written.last
	written.keepProblems(s.Problems)
	for _, p := range s.Problems {
		if at, was := written.problems[p]; (!was || now.Sub(at) >= repeatEvent) && write(true, p.Reason, p.Text) {
			written.problems[p] = now
		}
	}

	cause := fmt.Sprintf("%s %#x", s.Reason, s.Code)
	switch {
	case s.State == Failed && s.Failures >= failuresBeforeEvent:
		if (written.cause != cause || now.Sub(written.at) >= repeatEvent) && write(true, ReasonFailed, s.Message) {
			written.cause, written.at = cause, now
		}
	case s.State == Programmed && written.cause != "":
		if write(false, ReasonRecovered, fmt.Sprintf("all %d frontends are programmed again", s.Frontends)) {
			written.cause = ""
		}
	}
	mark(t.heldBack, name, heldBack)
	return out
}

// keepProblems forgets the problems that a service does not have any more. If only the numbers in a problem changed,
// it counts as written already.
func (s *serviceEvents) keepProblems(present []service.Problem) {
	gone := map[service.Problem]time.Time{} // by problem without numbers
	for p, at := range s.problems {
		if !slices.Contains(present, p) {
			delete(s.problems, p)
			gone[withoutNumbers(p)] = at
		}
	}

	for _, p := range present {
		if at, was := gone[withoutNumbers(p)]; was {
			if _, written := s.problems[p]; !written {
				s.problems[p] = at
			}
		}
	}
}

// withoutNumbers returns a problem without the digits in its text: "1030 backends" becomes "1031 backends" with every
// pod, which is not worth an event.
func withoutNumbers(p service.Problem) service.Problem {
	p.Text = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, p.Text)
	return p
}

func (t *eventThrottle) onNode(text string) string {
	if t.node == "" {
		return text
	}
	return "node " + t.node + ": " + text
}

// bucket is a token bucket.
type bucket struct {
	left int
	at   time.Time // of the last refill
}

// has reports whether a token is left at now.
func (b *bucket) has(burst int, refill time.Duration, now time.Time) bool {
	if b.at.IsZero() {
		b.at = now
	}
	if n := int(now.Sub(b.at) / refill); n > 0 {
		b.left = min(b.left+n, burst)
		b.at = b.at.Add(time.Duration(n) * refill)
	}
	return b.left > 0
}

func (s *Server) write(events []Event) {
	if s.options.Events == nil {
		return
	}
	for _, e := range events {
		s.options.Events.ServiceEvent(e)
	}
}
