package service

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// claim is a service's wish for a frontend.
type claim struct {
	entry   *entry
	created int64
	// precedence is the kind's; port is the index in the service's ports.
	precedence uint8
	port       uint16
}

// kinds in order of precedence: nobody takes a cluster IP by naming it as an external one.
var kinds = []Kind{ClusterIP, NodePort, Ingress, ExternalIP}

// before says who has a frontend that two services want: by kind, then the older one, then by name. It depends on the
// objects only, so a restarted proxy decides likewise.
func (c claim) before(o claim) bool {
	return cmp.Or(cmp.Compare(c.precedence, o.precedence), cmp.Compare(c.created, o.created),
		strings.Compare(c.entry.name, o.entry.name), cmp.Compare(c.port, o.port)) < 0
}

// index tells who has which frontend.
type index struct {
	owners map[Key]claim
	// contested has all claims of the frontends that more than one service wants, ordered.
	contested map[Key][]claim
}

func newIndex() index { return index{owners: map[Key]claim{}, contested: map[Key][]claim{}} }

// frontends calls f with every frontend that a service asks for, in order; a service may ask for one in two ways.
func (w *wanted) frontends(f func(key Key, precedence uint8, port int)) {
	if w == nil {
		return
	}
	for i := range w.ports {
		p := &w.ports[i]
		each := func(precedence uint8, addrs []netip.Addr) {
			for _, a := range addrs {
				f(Key{VIP: a, IPv6: a.Is6(), Protocol: p.protocol, Port: p.number}, precedence, i)
			}
		}
		each(0, w.cluster)
		for _, v6 := range []bool{false, true} {
			if p.nodePort != 0 && w.has(v6) {
				f(Key{IPv6: v6, Protocol: p.protocol, Port: p.nodePort}, 1, i)
			}
		}
		each(2, w.ingress)
		each(3, w.external)
	}
}

// claims are a service's own, the first of each key.
func (w *wanted) claims(e *entry) map[Key]claim {
	out := map[Key]claim{}
	w.frontends(func(key Key, precedence uint8, port int) {
		c := claim{entry: e, created: w.created, precedence: precedence, port: uint16(port)}
		if first, double := out[key]; !double || c.before(first) {
			out[key] = c
		}
	})
	return out
}

// replace puts the claims of an entry's new service in place of those of its old one, and gives the other entries that
// lost or won a frontend by it, or whose problem names another owner now.
func (x index) replace(e *entry, old, next *wanted) []*entry {
	before, after := old.claims(e), next.claims(e)
	var moved []*entry
	for key, c := range before {
		if after[key] != c {
			moved = x.remove(key, c, moved)
		}
	}
	for key, c := range after {
		if before[key] != c {
			moved = x.insert(key, c, moved)
		}
	}
	return moved
}

func (x index) insert(key Key, c claim, moved []*entry) []*entry {
	owner, taken := x.owners[key]
	if !taken {
		x.owners[key] = c
		return moved
	}
	all := x.contested[key]
	if all == nil {
		all = []claim{owner}
	}
	i, _ := slices.BinarySearchFunc(all, c, compareClaims)
	all = slices.Insert(all, i, c)
	x.contested[key] = all
	return x.settle(key, all, owner, moved)
}

func (x index) remove(key Key, c claim, moved []*entry) []*entry {
	all := x.contested[key]
	if all == nil {
		delete(x.owners, key)
		return moved
	}
	owner := all[0]
	all = slices.DeleteFunc(all, func(o claim) bool { return o == c })
	x.contested[key] = all
	if len(all) == 1 {
		delete(x.contested, key)
	}
	return x.settle(key, all, owner, moved)
}

// settle makes the first claim the owner; when that is news, all who wait for the frontend hear of it.
func (x index) settle(key Key, all []claim, owner claim, moved []*entry) []*entry {
	x.owners[key] = all[0]
	if all[0] != owner {
		for _, c := range all {
			moved = append(moved, c.entry)
		}
	}
	return moved
}

func compareClaims(a, b claim) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}
