package matrix

import (
	"fmt"
	"slices"
	"strings"
)

// How an address that nobody serves can answer.
const (
	refused     = "refused"
	timeout     = "timeout"
	unreachable = "unreachable"
)

// cell is one question: this client asks this frontend.
type cell struct{ entry, kind, proto, addr, client string }

func (c cell) String() string {
	return fmt.Sprintf("%s %s/%s from %s", c.entry, c.kind, c.proto, c.client)
}

// cellsOf lists all questions, in the entries' order, with what a comparison must know of each.
func cellsOf(entries []entry) (cells []cell, sticky map[cell]bool) {
	sticky = map[cell]bool{}
	for _, e := range entries {
		for _, f := range e.fronts {
			for _, client := range f.clients {
				c := cell{e.name, f.kind, f.proto, f.addr, client}
				cells = append(cells, c)
				sticky[c] = f.sticky
			}
		}
	}
	return cells, sticky
}

// outcome of a cell on one node: which backends answered, as whom they saw the client, and how it failed if nobody did.
type outcome struct {
	backends []string // sorted; empty: none
	sources  []string // sorted: "client", "node" or an address
	failures []string // sorted: refused, timeout, unreachable, …
}

// addresses of one node under test, to tell sources apart.
type addresses struct {
	client map[string][]string // by client
	node   []string
}

// outcomeOf reads the raw answers of a cell.
func outcomeOf(c cell, answers map[string]int, a addresses) outcome {
	var o outcome
	for text := range answers {
		server, source, two := strings.Cut(text, " ")
		switch {
		case c.kind == healthPort && text[0] >= '0' && text[0] <= '9':
			o.backends = append(o.backends, text)
		case !two || strings.HasPrefix(text, "error: "):
			o.failures = append(o.failures, text)
		default:
			o.backends = append(o.backends, server)
			o.sources = append(o.sources, a.class(c.client, source))
		}
	}
	for _, list := range []*[]string{&o.backends, &o.sources, &o.failures} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return o
}

func (a addresses) class(client, source string) string {
	switch {
	case client == fromNode && slices.Contains(a.node, source):
		return "client" // the node has several addresses, and each is its own
	case slices.Contains(a.client[client], source):
		return "client"
	case slices.Contains(a.node, source):
		return "node"
	}
	return source
}

// reached is the part of an outcome that must be equal: who answers. A sticky client meets one backend, whichever.
func (o outcome) reached(sticky bool) string {
	switch {
	case len(o.backends) == 0:
		return "none"
	case len(o.failures) > 0:
		return strings.Join(o.backends, " ") + ", sometimes " + strings.Join(o.failures, " ")
	case sticky && len(o.backends) == 1:
		return "one"
	}
	return strings.Join(o.backends, " ")
}

func (o outcome) String() string {
	if len(o.backends) == 0 {
		return "none (" + strings.Join(o.failures, " ") + ")"
	}
	s := strings.Join(o.backends, " ")
	if len(o.sources) > 0 {
		s += " see " + strings.Join(o.sources, " ")
	}
	if len(o.failures) > 0 {
		s += ", sometimes " + strings.Join(o.failures, " ")
	}
	return s
}

// difference is a cell whose outcomes are not equal.
type difference struct {
	cell
	windows, linux outcome
	source         bool // the same backends answer, but they see another source
	known          string
}

// compare lists the differences in the cells' order, each with the reason why it is expected, if it is.
func compare(cells []cell, sticky map[cell]bool, windows, linux map[cell]outcome, list []known) []difference {
	var out []difference
	for _, c := range cells {
		w, l := windows[c], linux[c]
		d := difference{cell: c, windows: w, linux: l}
		switch {
		case w.reached(sticky[c]) != l.reached(sticky[c]):
		case sticky[c] &&
			c.client == fromBackend: // it may meet itself on one side only, and so have another address there
			continue
		case !slices.Equal(w.sources, l.sources):
			d.source = true
		default:
			continue
		}
		for i := range list {
			if list[i].fits(d) {
				d.known = list[i].reason
				list[i].used++
				break
			}
		}
		out = append(out, d)
	}

	return out
}

// known is a difference that is expected, with its reason.
type known struct {
	reason string
	fits   func(difference) bool
	used   int // how many differences it explained
}

// table prints differences so that people can read them: those of one kind, protocol, client and pair of outcomes
// together.
func table(list []difference) string {
	type row struct{ where, windows, linux, known string }
	count, example := map[row]int{}, map[row]string{}
	var order []row
	for _, d := range list {
		r := row{fmt.Sprintf("%-8s %-4s from %-7s", d.kind, d.proto, d.client), d.windows.String(), d.linux.String(),
			d.known}
		if count[r] == 0 {
			order = append(order, r)
			example[r] = d.entry
		}
		count[r]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s | %-34s | %-34s | cells, e.g.\n", "question", "Windows node, kube-proxy.exe",
		"Linux node, upstream's kube-proxy")
	for _, r := range order {
		fmt.Fprintf(&b, "%-26s | %-34s | %-34s | %d %s\n", r.where, r.windows, r.linux, count[r], example[r])
		if r.known != "" {
			fmt.Fprintf(&b, "%26s | known: %s\n", "", r.known)
		}
	}
	return b.String()
}
