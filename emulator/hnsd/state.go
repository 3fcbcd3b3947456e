package hnsd

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"porthole.dev/porthole/emulator/desired"
)

// Kind of an object. The numbers are those of the wire.
type Kind int

const (
	Network Kind = iota
	Endpoint
	Namespace
	LoadBalancer
	Route
	Kinds // the number of kinds
)

// The names are parts of the names of calls (HcnCreateNetwork) and what users write.
var kindNames = [Kinds]string{"Network", "Endpoint", "Namespace", "LoadBalancer", "SdnRoute"}

func (k Kind) String() string {
	if k < 0 || k >= Kinds {
		return fmt.Sprintf("Kind%d", int(k))
	}
	return kindNames[k]
}

// Object is one HNS object. It is never changed once it is in a State.
type Object struct {
	Kind Kind
	ID   string // lower-case GUID
	Seq  uint64 // order of creation
	Doc  Doc    // the v2 document as it is given back
	V1   Doc    `json:",omitempty"` // fields that only v1 documents have
	Path string `json:",omitempty"` // of a namespace: the Linux network namespace that somebody else made for it

	typed // Doc, as the rules know it; set when the object is put into a State
}

// State is all objects of one host.
type State struct {
	tables
	blocks int // of ports, that load balancers hold
	// seq is the order of the newest object.
	seq         uint64
	compartment uint32            // the last one given out
	accelnet    []string          // management MAC addresses, in the order they were set
	touched     []ObjectReference // what was put or dropped since the state was Settled
}

// NewState returns the state of a new host. hostNamespace is the id of the namespace of the host's own compartment;
// "": there is none.
func NewState(hostNamespace string) *State {
	s := &State{tables: newTables(), compartment: 1}
	if hostNamespace == "" {
		return s
	}
	s.put(hostDefault(hostNamespace))
	return s
}

// hostDefault is the namespace of the host's own compartment.
func hostDefault(id string) *Object {
	return &Object{Kind: Namespace, ID: id, Doc: Doc{
		"ID": id, "NamespaceId": 1, "NamespaceGuid": id, "Type": "HostDefault", "Resources": []any{},
		"SchemaVersion": map[string]any{"Major": 2, "Minor": 0},
	}.copy()}
}

// clone shares everything until one of the two changes. It is not safe for concurrent use: its caller holds the lock
// of writers.
func (s *State) clone() *State {
	c := *s
	c.tables = s.tables.clone()
	c.touched = slices.Clip(s.touched)
	return &c
}

// Settled is the same state as the base of further changes: Diff tells what happened since.
func (s *State) Settled() *State {
	c := *s
	c.touched = nil
	return &c
}

// put adds an object or replaces the one of its id, whose place in the order it keeps.
func (s *State) put(o *Object) {
	if old, ok := s.Get(o.Kind, o.ID); ok {
		o.Seq = old.Seq
	} else {
		s.seq++
		o.Seq = s.seq
	}
	s.touched = append(s.touched, ObjectReference{o.Kind, o.ID})
	s.set(o)
}

// set puts an object in its place, reads its document, and counts.
func (s *State) set(o *Object) {
	// The document is read first: the index and the counts go by what was read.
	o.read()
	s.uncount(o.Kind, o.ID)
	if o.Kind == LoadBalancer && o.balancer.block {
		s.blocks++
	}
	s.insert(o)
}

// uncount takes an object out of the counts before it goes or is replaced.
func (s *State) uncount(k Kind, id string) {
	if old, ok := s.Get(k, id); ok && k == LoadBalancer && old.balancer.block {
		s.blocks--
	}
}

// drop of what is not there only notes it; Diff leaves it out.
func (s *State) drop(k Kind, id string) {
	s.touched = append(s.touched, ObjectReference{k, id})
	s.uncount(k, id)
	s.remove(k, id)
}

// Get finds an object by its canonical id.
func (s *State) Get(k Kind, id string) (*Object, bool) { return s.tables.get(k, id) }

// Count is how many objects of a kind there are.
func (s *State) Count(k Kind) int { return s.byID[k].Len() }

// List gives all objects of a kind in the order of their creation.
func (s *State) List(k Kind) []*Object {
	list := make([]*Object, 0, s.Count(k))
	s.bySeq[k].Ascend(func(o *Object) bool {
		list = append(list, o)
		return true
	})
	return list
}

// Everything gives all objects, kind by kind.
func (s *State) Everything() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for k := range Kinds {
			for _, o := range s.List(k) {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Host are the rules of one emulated host, and what they need to know of it.
type Host struct {
	Profile  Profile
	NodeAddr string   // address of the uplink: ManagementIP, ProviderAddress
	NodeMAC  string   // of the uplink, AA-BB-CC-DD-EE-FF
	Adapters []string // names under which network cards may be asked for; none: any name
	// Uplinks are the names of the network cards, the one with NodeAddr first. A network that names no card is bound
	// to the last one, because programs must not rely on which card Windows chooses.
	Uplinks []string
	NewID   func() string // random GUIDs, lower case
	// PortBlocks is how many blocks of ephemeral ports the host has; nil: no limit.
	PortBlocks func() int
	// Listens reports whether a process of the host listens on a port, at that address or at all of them. An invalid
	// address stands for any of the host's but loopback. nil: nobody does.
	Listens func(protocol uint8, addr netip.Addr, port uint16) bool
	// Traffic returns what an endpoint has sent and received so far; nil: nothing is counted.
	Traffic func(endpoint string) desired.Traffic
}

// edit copies an object's document for a change.
func (o *Object) edit() *Object {
	c := *o
	c.Doc = o.Doc.copy()
	return &c
}

// The parts of a State that are kept on disk beside its objects.
type Counters struct {
	Seq         uint64
	Compartment uint32
	Accelnet    []string `json:",omitempty"`
}

// Change is what one call did to a State, for a journal.
type Change struct {
	Put      []*Object         `json:",omitempty"`
	Drop     []ObjectReference `json:",omitempty"`
	Counters Counters
}

// ObjectReference names an object.
type ObjectReference struct {
	Kind Kind
	ID   string
}

// Diff is the Change that makes s out of old, which was Settled before s was made of it. nil as old gives the whole
// state.
func (s *State) Diff(old *State) Change {
	c := Change{Counters: Counters{s.seq, s.compartment, s.accelnet}}
	if old == nil {
		c.Put = slices.Collect(s.Everything())
		return c
	}
	// An object that was changed several times is compared once, at its end.
	seen := make(map[ObjectReference]bool, len(s.touched))
	for _, r := range s.touched {
		if seen[r] {
			continue
		}
		seen[r] = true
		now, is := s.Get(r.Kind, r.ID)
		before, was := old.Get(r.Kind, r.ID)
		switch {
		case is && now != before:
			c.Put = append(c.Put, now)
		case !is && was:
			c.Drop = append(c.Drop, r)
		}
	}
	return c
}

// Empty reports whether nothing changed, counters aside.
func (c Change) Empty() bool { return len(c.Put) == 0 && len(c.Drop) == 0 }

// Replay applies a Change that was read from a journal.
func (s *State) Replay(c Change) (*State, error) {
	// Without a former state the change is a whole one, the first line of a journal.
	n := &State{tables: newTables()}
	if s != nil {
		n = s.clone()
	}
	for _, r := range c.Drop {
		if r.Kind < 0 || r.Kind >= Kinds {
			return nil, fmt.Errorf("replaying state: unknown kind %d", r.Kind)
		}
		n.drop(r.Kind, r.ID)
	}

	for _, o := range c.Put {
		if o.Kind < 0 || o.Kind >= Kinds {
			return nil, fmt.Errorf("replaying state: unknown kind %d", o.Kind)
		}
		o.Doc = o.Doc.copy() // numbers as everywhere else
		if o.V1 != nil {
			o.V1 = o.V1.copy()
		}
		n.set(o)
	}

	// What was replayed is on disk already.
	n.touched = nil
	n.seq = c.Counters.Seq
	n.compartment = c.Counters.Compartment
	n.accelnet = c.Counters.Accelnet
	return n, nil
}
