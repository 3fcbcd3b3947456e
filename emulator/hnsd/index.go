package hnsd

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"

	"github.com/google/btree"
)

// tables hold the objects of a State, in trees that two states share until one of them changes: a copy costs nothing,
// and a change as much as one path through a tree.
// Each object is in two trees and, with each of its properties, in the index. insert and remove
// keep the three equal.
type tables struct {
	byID  [Kinds]*btree.BTreeG[*Object]
	bySeq [Kinds]*btree.BTreeG[*Object]
	index *btree.BTreeG[indexed]
}

// indexed says that an object has a property. The index finds the objects with a property without a pass over all of
// them.
type indexed struct {
	key property
	id  string
}

// property is a kind of property and its value as text.
type property struct{ name, value string }

// The names of properties, with what their values are.
const (
	frontendOf    = "frontend"        // load balancers, by what they conflict in
	nodePortOf    = "node port"       // load balancers without frontend addresses, by external port
	hostPortTaken = "host port taken" // load balancers, by the host's own ports that they take
	blockOf       = "block"           // load balancers that hold a block of ports
	networkOf     = "network"         // endpoints, by network
	namespaceOf   = "namespace"       // endpoints, by namespace
	addressOf     = "address"         // endpoints, by network, remote or local, and address
	localOf       = "local"           // local endpoints, by address in whatever network
	macOf         = "mac"             // endpoints
	hostPortOf    = "host port"       // endpoints with a port mapping, by external port
)

// The degree is that of package btree: a node has at most 2*degree-1 objects.
const degree = 16 // of the trees; a path to copy is a few of such nodes

// newTables are empty tables. The index is ordered by property first, so that the objects with one
// property lie side by side.
func newTables() tables {
	t := tables{index: btree.NewG(degree, func(a, b indexed) bool {
		return cmp.Or(cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.key.value, b.key.value),
			cmp.Compare(a.id, b.id)) < 0
	})}
	for k := range t.byID {
		t.byID[k] = btree.NewG(degree, func(a, b *Object) bool { return a.ID < b.ID })
		t.bySeq[k] = btree.NewG(degree, func(a, b *Object) bool { return a.Seq < b.Seq })
	}
	return t
}

// clone is for a copy of which one side is changed: both share nodes until then.
func (t tables) clone() tables {
	for k := range t.byID {
		t.byID[k], t.bySeq[k] = t.byID[k].Clone(), t.bySeq[k].Clone()
	}
	t.index = t.index.Clone()
	return t
}

// get finds by id alone: the trees of a kind compare ids, or the order of creation.
func (t tables) get(k Kind, id string) (*Object, bool) { return t.byID[k].Get(&Object{ID: id}) }

// insert replaces an object of the same id, with what the index has of it.
func (t tables) insert(o *Object) {
	t.remove(o.Kind, o.ID)
	t.byID[o.Kind].ReplaceOrInsert(o)
	t.bySeq[o.Kind].ReplaceOrInsert(o)
	for p := range properties(o) {
		t.index.ReplaceOrInsert(indexed{p, o.ID})
	}
}

// remove does nothing if there is no such object.
func (t tables) remove(k Kind, id string) {
	old, ok := t.byID[k].Delete(&Object{ID: id})
	if !ok {
		return
	}
	t.bySeq[k].Delete(old)
	for p := range properties(old) {
		t.index.Delete(indexed{p, id})
	}
}

// having gives the ids of the objects that have a property.
// The index is walked from the first id with the property on, and the walk ends at another
// property.
func (s *State) having(name, value string) iter.Seq[string] {
	return func(yield func(string) bool) {
		p := property{name, value}
		s.index.AscendGreaterOrEqual(indexed{key: p}, func(e indexed) bool { return e.key == p && yield(e.id) })
	}
}

// anyHaving reports whether an object other than that has a property.
// but is the id of the object that asks, or "".
func (s *State) anyHaving(name, value, but string) bool {
	for id := range s.having(name, value) {
		if id != but {
			return true
		}
	}
	return false
}

// endpointsHaving gives the endpoints that have a property.
func (s *State) endpointsHaving(name, value string) []*Object {
	var list []*Object
	for id := range s.having(name, value) {
		if o, ok := s.Get(Endpoint, id); ok {
			list = append(list, o)
		}
	}
	return list
}

// properties of an object, as the index has them.
func properties(o *Object) iter.Seq[property] {
	switch o.Kind {
	case Endpoint:
		return endpointProperties(o.endpoint)
	case LoadBalancer:
		return balancerProperties(o.balancer)
	}
	return func(func(property) bool) {}
}

// endpointProperties returns what endpoints are looked up by. Every check of HNS that compares an endpoint with all
// others goes by one of these, so that it takes as long with thousands of endpoints.
func endpointProperties(e *endpointDoc) iter.Seq[property] {
	return func(yield func(property) bool) {
		list := []property{{networkOf, e.network}, {macOf, e.mac}}
		if e.attached() {
			list = append(list, property{namespaceOf, e.namespace})
		}
		for _, a := range e.addrs {
			list = append(list, property{addressOf, addressKey(e.network, e.remote, a)})
			if !e.remote {
				list = append(list, property{localOf, a.String()})
			}
		}
		for _, p := range e.ports {
			list = append(list, property{hostPortOf, p.key()})
		}
		for _, p := range list {
			if !yield(p) {
				return
			}
		}
	}
}

// addressKey is one key for a local and another for a remote endpoint with the same address: HNS
// lets both exist (F-21 of serve/scenario.go).
func addressKey(network string, remote bool, a netip.Addr) string {
	return fmt.Sprintf("%s/%v/%s", network, remote, a)
}

// balancerProperties returns what load balancers are looked up by: frontends, host ports, whether it holds a block of
// ports, and node ports, which only those without a frontend address have.
func balancerProperties(b *balancerDoc) iter.Seq[property] {
	return func(yield func(property) bool) {
		for _, f := range b.frontends() {
			if !yield(property{frontendOf, f}) {
				return
			}
		}
		for _, p := range b.hostPorts() {
			if !yield(property{hostPortTaken, p}) {
				return
			}
		}
		if b.block && !yield(property{blockOf, ""}) || len(b.vips) > 0 {
			return
		}
		for _, m := range b.ports {
			if !yield(property{nodePortOf, m.key()}) {
				return
			}
		}
	}
}
