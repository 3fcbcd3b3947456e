package adapters

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Adapter is one network adapter of the host, with its settings for one family: one that has addresses of both comes
// twice.
type Adapter struct {
	ID    uint64 // the LUID, which another adapter of the same name does not have
	Name  string // as users see it, for example "vEthernet (Ethernet)"
	Six   bool   // the settings and addresses are those of IPv6
	Addrs []netip.Addr
	// Forwarding reports whether packets that come in by this adapter and are for somebody else are forwarded.
	Forwarding bool
	// Defaults are the next hops of its default routes.
	Defaults []netip.Addr
}

func (a Adapter) has(addr netip.Addr) bool { return slices.Contains(a.Addrs, addr) }

// Wanted says which adapters carry packets between pods and the other nodes.
type Wanted struct {
	Node netip.Addr // the node's own address
	Host netip.Addr // the address of the host's endpoint, which is the pods' gateway
	// Node6 and Host6 are the same of IPv6; zero: the node has IPv4 only.
	Node6, Host6 netip.Addr
}

// need is an address that an adapter must have.
type need struct {
	addr netip.Addr
	what string
}

func (w Wanted) needs() []need {
	list := []need{{w.Node, "the node's address"}, {w.Host, "the pods' gateway"}}
	if w.Host6.IsValid() {
		list = append(list, need{w.Node6, "the node's address"}, need{w.Host6, "the pods' gateway"})
	}
	return list
}

// key identifies an adapter in one family.
type key struct {
	id  uint64
	six bool
}

func (a Adapter) key() key { return key{a.ID, a.Six} }

// Verb of an Op.
type Verb string

// The verbs.
const (
	EnableForwarding Verb = "enable forwarding"
	DeleteDefault    Verb = "delete default route"
)

// Op is one change of an adapter. It can be repeated.
type Op struct {
	Verb    Verb
	Adapter Adapter
	NextHop netip.Addr // of DeleteDefault
	Why     string
}

func (o Op) String() string {
	if o.Verb == DeleteDefault {
		return fmt.Sprintf("%s via %s on %s: %s", o.Verb, o.NextHop, o.Adapter.Name, o.Why)
	}
	return fmt.Sprintf("%s on %s: %s", o.Verb, o.Adapter.Name, o.Why)
}

// Plan is what has to be done, and the problems that no change of an adapter can solve.
type Plan struct {
	Ops      []Op
	Problems []string
}

// String returns the plan as logs and tests show it.
func (p Plan) String() string {
	var b strings.Builder
	for _, text := range p.Problems {
		fmt.Fprintf(&b, "problem: %s\n", text)
	}
	for _, o := range p.Ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

// MakePlan compares the host's adapters with what is wanted. It is pure.
func MakePlan(wanted Wanted, list []Adapter) Plan {
	var p Plan
	for _, need := range wanted.needs() {
		i := slices.IndexFunc(list, func(a Adapter) bool { return a.has(need.addr) })
		switch {
		case i < 0:
			p.Problems = append(p.Problems, fmt.Sprintf("no adapter of this host has %s %s", need.what, need.addr))
		case !list[i].Forwarding && !p.forwards(list[i]):
			p.Ops = append(p.Ops, Op{Verb: EnableForwarding, Adapter: list[i],
				Why: fmt.Sprintf("it has %s %s, and drops what it should forward", need.what, need.addr)})
		}
	}

	for _, a := range list {
		host, node := wanted.Host, wanted.Node
		if a.Six {
			host, node = wanted.Host6, wanted.Node6
		}
		if !a.has(host) || a.has(node) {
			continue
		}
		for _, hop := range a.Defaults {
			p.Ops = append(p.Ops, Op{Verb: DeleteDefault, Adapter: a, NextHop: hop,
				Why: "it came with the host's endpoint, and would take the node's own traffic to an address that nobody has"})
		}
	}
	return p
}

// forwards reports whether the plan enables forwarding on the adapter already.
func (p Plan) forwards(a Adapter) bool {
	return slices.ContainsFunc(p.Ops,
		func(o Op) bool { return o.Verb == EnableForwarding && o.Adapter.key() == a.key() })
}
