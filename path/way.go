package path

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Request names both ends of a packet.
type Request struct {
	From string // a pod (NAMESPACE/NAME or NAME), a node, or an address
	To   string // the same, or a service (NAMESPACE/NAME), followed by :PORT or not
	// Protocol is tcp or udp; empty: tcp.
	Protocol string
}

// Result is what Follow found.
type Result struct {
	From string `json:"from"`
	To   string `json:"to"`
	Ways []Way  `json:"ways"`
}

// Way is the list of hops of one packet, and of its answer.
type Way struct {
	Backend netip.AddrPort `json:"backend,omitzero"` // of a service
	Hops    []Hop          `json:"hops"`
	Answer  []Hop          `json:"answer,omitempty"`
	// Via are the names of the machines that the packet passes after the one that sends it, as traceroute would show
	// them.
	Via []string `json:"via"`
}

// Hop is one step: where the packet is, and which rule decides what becomes of it.
type Hop struct {
	At      string `json:"at"`      // the machine, or the pod
	What    string `json:"what"`    // endpoint, service, forwarding, route, neighbour, …
	Decides string `json:"decides"` // the rule, route or load balancer
	Wrong   *Wrong `json:"wrong,omitempty"`
	// Unknown says why the step could not be judged.
	Unknown string `json:"unknown,omitempty"`
}

// Wrong is what is not right at a hop.
type Wrong struct {
	Found  string `json:"found"`
	Should string `json:"should"`
	Who    string `json:"who"` // who makes what should be there
}

// First returns the first wrong hop of all ways, and nil if there is none.
func (r Result) First() *Hop {
	for _, w := range r.Ways {
		if h := w.First(); h != nil {
			return h
		}
	}
	return nil
}

// First returns the way's first wrong hop; nil if there is none.
func (w Way) First() *Hop {
	for _, list := range [][]Hop{w.Hops, w.Answer} {
		for i := range list {
			if list[i].Wrong != nil {
				return &list[i]
			}
		}
	}
	return nil
}

// Unknown reports whether a step could not be judged.
func (r Result) Unknown() bool {
	for _, w := range r.Ways {
		for _, list := range [][]Hop{w.Hops, w.Answer} {
			for _, h := range list {
				if h.Unknown != "" {
					return true
				}
			}
		}
	}
	return false
}

// Print writes the ways and the first wrong hop as text.
func (r Result) Print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "from %s to %s\n", r.From, r.To)
	for i, w := range r.Ways {
		if w.Backend.IsValid() {
			fmt.Fprintf(&b, "\nway %d of %d, to backend %s\n", i+1, len(r.Ways), w.Backend)
		}
		printHops(&b, w.Hops)
		if len(w.Answer) > 0 {
			fmt.Fprintf(&b, "  the answer:\n")
			printHops(&b, w.Answer)
		}
	}

	// The first wrong hop is what to repair; those after it may be wrong because of it.
	switch first := r.First(); {
	case first != nil:
		fmt.Fprintf(&b, "\nThe first hop that is wrong is at %s, %s: %s.\n  should be: %s\n  made by: %s\n",
			first.At, first.What, first.Wrong.Found, first.Wrong.Should, first.Wrong.Who)
	case r.Unknown():
		fmt.Fprintf(&b, "\nNothing is wrong as far as it is known; steps with a question mark could not be judged.\n")
	default:
		fmt.Fprintf(&b, "\nNothing is wrong.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printHops marks wrong hops with ! and those that could not be judged with ?.
func printHops(b *strings.Builder, hops []Hop) {
	for _, h := range hops {
		mark := " "
		switch {
		case h.Wrong != nil:
			mark = "!"
		case h.Unknown != "":
			mark = "?"
		}
		fmt.Fprintf(b, "%s %-24s %-11s %s\n", mark, h.At, h.What, h.Decides)
		if h.Wrong != nil {
			fmt.Fprintf(b, "    wrong: %s\n    should be: %s\n    made by: %s\n", h.Wrong.Found, h.Wrong.Should,
				h.Wrong.Who)
		}
		if h.Unknown != "" {
			fmt.Fprintf(b, "    not known: %s\n", h.Unknown)
		}
	}
}
