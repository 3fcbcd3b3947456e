package hnsd

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// Kind of an object. The numbers are those of the wire.
type Kind int

const (
	Network Kind = iota
	Endpoint
	Namespace
	LoadBalancer
	Route
	kinds
)

var kindNames = [kinds]string{"Network", "Endpoint", "Namespace", "LoadBalancer", "SdnRoute"}

func (k Kind) String() string {
	if k < 0 || k >= kinds {
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
}

// State is all objects of one host.
type State struct {
	objects     [kinds]map[string]*Object
	seq         uint64
	compartment uint32   // the last one given out
	accelnet    []string // management MAC addresses, in the order they were set
}

// NewState is the state of a host that has just been set up: only its own compartment.
func NewState(hostNamespace string) *State {
	s := &State{compartment: 1}
	for k := range s.objects {
		s.objects[k] = map[string]*Object{}
	}
	s.put(&Object{Kind: Namespace, ID: hostNamespace, Doc: Doc{
		"ID": hostNamespace, "NamespaceId": 1, "NamespaceGuid": hostNamespace, "Type": "HostDefault", "Resources": []any{},
		"SchemaVersion": map[string]any{"Major": 2, "Minor": 0},
	}.copy()})
	return s
}

// clone shares the objects, which never change.
func (s *State) clone() *State {
	c := *s
	for k := range s.objects {
		c.objects[k] = maps.Clone(s.objects[k])
	}
	return &c
}

func (s *State) put(o *Object) {
	if old := s.objects[o.Kind][o.ID]; old != nil {
		o.Seq = old.Seq
	} else {
		s.seq++
		o.Seq = s.seq
	}
	s.objects[o.Kind][o.ID] = o
}

func (s *State) drop(k Kind, id string) { delete(s.objects[k], id) }

// Get finds an object by its canonical id.
func (s *State) Get(k Kind, id string) (*Object, bool) {
	o, ok := s.objects[k][id]
	return o, ok
}

// Count is how many objects of a kind there are.
func (s *State) Count(k Kind) int { return len(s.objects[k]) }

// List gives all objects of a kind in the order of their creation.
func (s *State) List(k Kind) []*Object {
	return slices.SortedFunc(maps.Values(s.objects[k]), func(a, b *Object) int { return cmp.Compare(a.Seq, b.Seq) })
}

// Everything gives all objects, kind by kind.
func (s *State) Everything() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for k := range kinds {
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
	NodeAddr string        // address of the uplink: ManagementIP, ProviderAddress
	NodeMAC  string        // of the uplink, AA-BB-CC-DD-EE-FF
	Adapters []string      // names under which the uplink may be asked for; none: any name
	NewID    func() string // random GUIDs, lower case
	// PortBlocks is how many blocks of ephemeral ports the host has; nil: no limit.
	PortBlocks func() int
	// Listens tells whether a process of the host listens on a port, at that address or at all of them. An invalid
	// address stands for any of the host's but loopback. nil: nobody does.
	Listens func(protocol uint8, addr netip.Addr, port uint16) bool
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

// Diff is the Change that makes s out of old. nil as old gives the whole state.
func (s *State) Diff(old *State) Change {
	c := Change{Counters: Counters{s.seq, s.compartment, s.accelnet}}
	for k := range kinds {
		for _, o := range s.List(k) {
			if old == nil || old.objects[k][o.ID] != o {
				c.Put = append(c.Put, o)
			}
		}
		if old == nil {
			continue
		}
		for id := range old.objects[k] {
			if _, ok := s.objects[k][id]; !ok {
				c.Drop = append(c.Drop, ObjectReference{k, id})
			}
		}
	}
	return c
}

// Empty tells whether nothing changed, counters aside.
func (c Change) Empty() bool { return len(c.Put) == 0 && len(c.Drop) == 0 }

// Replay applies a Change that was read from a journal.
func (s *State) Replay(c Change) (*State, error) {
	n := &State{}
	if s != nil {
		n = s.clone()
	}
	for k := range n.objects {
		if n.objects[k] == nil {
			n.objects[k] = map[string]*Object{}
		}
	}
	for _, r := range c.Drop {
		if r.Kind < 0 || r.Kind >= kinds {
			return nil, fmt.Errorf("replaying state: unknown kind %d", r.Kind)
		}
		n.drop(r.Kind, r.ID)
	}
	for _, o := range c.Put {
		if o.Kind < 0 || o.Kind >= kinds {
			return nil, fmt.Errorf("replaying state: unknown kind %d", o.Kind)
		}
		o.Doc = o.Doc.copy() // numbers as everywhere else
		if o.V1 != nil {
			o.V1 = o.V1.copy()
		}
		n.objects[o.Kind][o.ID] = o
	}
	n.seq, n.compartment, n.accelnet = c.Counters.Seq, c.Counters.Compartment, c.Counters.Accelnet
	return n, nil
}
