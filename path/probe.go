package path

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// Sighting is one interface at which a probe was seen.
type Sighting struct {
	At        string         `json:"at"` // the machine, or the pod
	Interface string         `json:"interface"`
	Out       bool           `json:"out"` // it left by the interface
	From      netip.AddrPort `json:"from"`
	To        netip.AddrPort `json:"to"`
	// Micros is when, in microseconds after the probe was first seen.
	Micros int64 `json:"micros"`
	// Answer: it was not the probe but what answers it.
	Answer bool `json:"answer,omitempty"`
}

// Probe is a packet that was really sent, and what became of it.
type Probe struct {
	// Sent says what was sent. Answer is what its sender got; empty: nothing.
	Sent      string     `json:"sent"`
	Answer    string     `json:"answer,omitempty"`
	Sightings []Sighting `json:"sightings"` // in the order of time
	// Way is the number of the way that it took, from 0.
	Way int `json:"way"`
	// Lost says where it was lost; empty: it arrived. Hop is the number of that hop in the way, -1 if it arrived.
	Lost string `json:"lost,omitempty"`
	Hop  int    `json:"hop"`
	// AnswerLost says where an answer was lost that was seen on its way.
	AnswerLost string `json:"answerLost,omitempty"`
}

// Arrived reports whether the probe came to its destination.
func (p *Probe) Arrived() bool { return p.Lost == "" }

// Witness compares what was computed with where a probe was seen, and completes the probe: which way it took, and the
// first hop that it did not pass. receiver names the pod or machine that has an address, as sightings name it; "" if
// it was not watched.
func (r Result) Witness(p *Probe, to netip.Addr, receiver func(netip.Addr) string) {
	p.Hop = -1
	p.Way = r.taken(p.Sightings)
	if p.Way >= len(r.Ways) {
		return
	}
	w := r.Ways[p.Way]
	if w.Backend.IsValid() {
		to = w.Backend.Addr()
	}
	who, last := receiver(to), p.last(false)
	if who == "" || p.seen(who) {
		if answer := p.last(true); p.Answer == "" && answer != nil && answer.At != p.Sightings[0].At {
			p.AnswerLost = fmt.Sprintf("the answer was last seen on %s, and the sender did not get it", answer.At)
		}
		return
	}

	if last == nil {
		p.Hop = 0
		p.Lost = "it was seen nowhere: the sender's network did not take it"
		return
	}
	direction := "in"
	if last.Out {
		direction = "out"
	}
	p.Lost = fmt.Sprintf("it was last seen on %s (%s %s), and %s did not get it", last.At, direction, last.Interface,
		who)
	p.Hop = w.lostAt(p)
}

// last returns the last sighting of the probe, or of its answer; nil if there is none.
func (p *Probe) last(answer bool) (last *Sighting) {
	for i := range p.Sightings {
		if p.Sightings[i].Answer == answer {
			last = &p.Sightings[i]
		}
	}
	return last
}

// seen reports whether the probe itself was seen at a machine or pod.
func (p *Probe) seen(at string) bool {
	return slices.ContainsFunc(p.Sightings, func(s Sighting) bool { return s.At == at && !s.Answer })
}

// lostAt returns the first hop that a probe which did not arrive did not pass: one that is wrong on paper, on a
// machine that has seen the probe; else the first one of the first machine that has not seen it; else the last.
func (w Way) lostAt(p *Probe) int {
	for i, h := range w.Hops {
		if h.Wrong != nil && p.seen(h.At) {
			return i
		}
	}
	for i, h := range w.Hops {
		if !p.seen(h.At) {
			return i
		}
	}
	return max(0, len(w.Hops)-1)
}

// taken returns the way whose backend a probe was sent to; the first if that cannot be told.
func (r Result) taken(sightings []Sighting) int {
	for i, w := range r.Ways {
		for _, s := range sightings {
			if w.Backend.IsValid() && s.To.Addr() == w.Backend.Addr() && !s.Answer {
				return i
			}
		}
	}
	return 0
}

// Print writes what became of a probe as text.
func (p *Probe) Print(out io.Writer, r Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nA probe was sent: %s\n", p.Sent)
	for _, s := range p.Sightings {
		direction, what := "in", ""
		if s.Out {
			direction = "out"
		}
		if s.Answer {
			what = ", the answer"
		}
		fmt.Fprintf(&b, "  %6d µs  %-24s %-3s %-22s %s > %s%s\n", s.Micros, s.At, direction, s.Interface, s.From, s.To,
			what)
	}

	switch {
	case !p.Arrived():
		fmt.Fprintf(&b, "The probe was lost: %s.\n", p.Lost)
		if p.Way < len(r.Ways) && p.Hop >= 0 && p.Hop < len(r.Ways[p.Way].Hops) {
			h := r.Ways[p.Way].Hops[p.Hop]
			fmt.Fprintf(&b, "  first hop that it did not pass: %s, %s: %s\n", h.At, h.What, h.Decides)
		}
	case p.AnswerLost != "":
		fmt.Fprintf(&b, "The probe arrived; %s.\n", p.AnswerLost)
	case p.Answer == "":
		fmt.Fprintf(&b, "The probe arrived; its sender got no answer.\n")
	default:
		fmt.Fprintf(&b, "The probe arrived; its sender got %s.\n", p.Answer)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
