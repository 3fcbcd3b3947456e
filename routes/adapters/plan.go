package adapters

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Adapter is one network adapter of the host, with its settings for IPv4.
type Adapter struct {
	ID    uint64 // the LUID, which another adapter of the same name does not have
	Name  string // as users see it, for example "vEthernet (Ethernet)"
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
}

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
	for _, need := range []struct {
		addr netip.Addr
		what string
	}{{wanted.Node, "the node's address"}, {wanted.Host, "the pods' gateway"}} {
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
		if !a.has(wanted.Host) || a.has(wanted.Node) {
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
	return slices.ContainsFunc(p.Ops, func(o Op) bool { return o.Verb == EnableForwarding && o.Adapter.ID == a.ID })
}
