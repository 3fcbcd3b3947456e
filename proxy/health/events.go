package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/proxy/service"
)

// Events writes events on services; internal/kube implements it. It must not block.
type Events interface {
	ServiceEvent(e Event)
}

// Event on one service.
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
	// failuresBeforeEvent: one or two failures in a row are everyday life of HNS.
	failuresBeforeEvent = 3
	// repeatEvent: the API server keeps events for an hour (--event-ttl), after that one that still holds is said again.
	repeatEvent = time.Hour
	// One service may cause burst events at once and one more per refill; all together the same with the other numbers.
	serviceBurst, serviceRefill = 5, 2 * time.Minute
	allBurst, allRefill         = 50, time.Second
	// walkEvery: events that must be said again are looked for this often.
	walkEvery = time.Minute
)

// voice decides which events are written. It is pure: it keeps what was said, and time comes in.
type voice struct {
	node     string
	speakers map[string]*speaker
	owing    map[string]bool // have something to say that the rate held back
	bucket   bucket
	walked   time.Time // when the bad services were last gone through
}

// speaker is what was said about one service. Only services that had something to say have one.
type speaker struct {
	bucket bucket
	// cause of the failure that was said, and when; "" when none was.
	cause string
	at    time.Time
	// problems that were said, by reason and text; present ones only.
	problems map[service.Problem]time.Time
	last     ServiceStatus
}

func newVoice(node string) voice {
	return voice{node: node, speakers: map[string]*speaker{}, owing: map[string]bool{}, bucket: bucket{left: allBurst}}
}

// hear gives the events that a status leads to.
func (v *voice) hear(s ServiceStatus, now time.Time) []Event {
	sp := v.speakers[s.Service]
	if s.Removed {
		delete(v.speakers, s.Service)
		delete(v.owing, s.Service)
		return nil
	}
	if sp == nil {
		if len(s.Problems) == 0 && (s.State != Failed || s.Failures < failuresBeforeEvent) {
			return nil
		}
		sp = &speaker{bucket: bucket{left: serviceBurst}, problems: map[service.Problem]time.Time{}}
		v.speakers[s.Service] = sp
	}
	sp.last = s
	return v.speak(s.Service, sp, now)
}

// due gives what the rate held back, and what must be said again.
func (v *voice) due(t *table, now time.Time) []Event {
	var out []Event
	for _, name := range sortedKeys(v.owing) {
		if !v.bucket.has(allBurst, allRefill, now) {
			return out
		}
		if sp := v.speakers[name]; sp != nil {
			out = append(out, v.speak(name, sp, now)...)
		}
	}
	if now.Sub(v.walked) < walkEvery {
		return out
	}
	v.walked = now
	for name := range t.bad {
		if sp := v.speakers[name]; sp != nil && !v.owing[name] {
			out = append(out, v.speak(name, sp, now)...)
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

// speak says what is to be said of the last status of a service and was not.
func (v *voice) speak(name string, sp *speaker, now time.Time) []Event {
	var out []Event
	owes := false
	say := func(warning bool, reason, text string) bool {
		if !sp.bucket.has(serviceBurst, serviceRefill, now) || !v.bucket.has(allBurst, allRefill, now) {
			owes = true
			return false
		}
		sp.bucket.left--
		v.bucket.left--
		out = append(out, Event{Service: name, Warning: warning, Reason: reason, Text: text})
		return true
	}
	s := sp.last
	changed := map[service.Problem]time.Time{} // problems that went, by shape: one that comes in its place is the same
	for p, at := range sp.problems {
		if !slices.Contains(s.Problems, p) {
			delete(sp.problems, p)
			changed[shape(p)] = at
		}
	}
	for _, p := range s.Problems {
		if at, was := changed[shape(p)]; was {
			if _, said := sp.problems[p]; !said {
				sp.problems[p] = at
			}
		}
		if at, said := sp.problems[p]; (!said || now.Sub(at) >= repeatEvent) && say(true, p.Reason, v.on(p.Text)) {
			sp.problems[p] = now
		}
	}
	cause := fmt.Sprintf("%s %#x", s.Reason, s.Code)
	switch {
	case s.State == Failed && s.Failures >= failuresBeforeEvent:
		if (sp.cause != cause || now.Sub(sp.at) >= repeatEvent) && say(true, ReasonFailed, v.on(s.Message)) {
			sp.cause, sp.at = cause, now
		}
	case s.State == Programmed && sp.cause != "":
		if say(false, ReasonRecovered, v.on(fmt.Sprintf("all %d frontends are programmed again", s.Frontends))) {
			sp.cause = ""
		}
	}
	mark(v.owing, name, owes)
	return out
}

// shape is a problem without its numbers: "1030 backends" becomes "1031 backends" with every pod, and is no news.
func shape(p service.Problem) service.Problem {
	p.Text = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, p.Text)
	return p
}

func (v *voice) on(text string) string {
	if v.node == "" {
		return text
	}
	return "node " + v.node + ": " + text
}

// bucket is a token bucket.
type bucket struct {
	left int
	at   time.Time // of the last refill
}

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

func (s *Server) say(events []Event) {
	if s.options.Events == nil {
		return
	}
	for _, e := range events {
		s.options.Events.ServiceEvent(e)
	}
}
