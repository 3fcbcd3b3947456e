package service

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// claim is one service wanting a frontend.
type claim struct {
	entry   *entry
	created int64
	// precedence is the kind's; port is the index in the service's ports.
	precedence uint8
	port       uint16
}

// kinds in order of precedence: a service cannot take another's cluster IP by naming it as an external IP.
var kinds = []Kind{ClusterIP, NodePort, Ingress, ExternalIP}

// before reports whether claim c wins over claim o for the same frontend: by kind, then the older service, then by
// name. It depends only on the objects, so a restarted proxy decides the same.
func (c claim) before(o claim) bool {
	return cmp.Or(cmp.Compare(c.precedence, o.precedence), cmp.Compare(c.created, o.created),
		strings.Compare(c.entry.name, o.entry.name), cmp.Compare(c.port, o.port)) < 0
}

// index has the owner of each frontend.
type index struct {
	owners map[Key]claim
	// contested has all claims, in order, for the frontends that several services want.
	contested map[Key][]claim
}

func newIndex() index { return index{owners: map[Key]claim{}, contested: map[Key][]claim{}} }

// frontends calls f with every frontend that a service wants, in order. A service may want one in two ways.
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

// claims returns a service's claims, the winning one for each key.
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

// replace replaces the claims of an entry's old service by those of its new one. It returns the entries that lost or
// won a frontend by that, or whose problem names another owner now.
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

// insert adds a claim to a frontend's key. It appends to moved the entries that are concerned if the owner changes.
// contested has an entry only for a key with two claims or more, so the usual case costs no list.
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

// settle makes the first claim the owner. If the owner changed, the entries of all claims are added to moved.
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
