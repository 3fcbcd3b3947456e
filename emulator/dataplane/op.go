package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Op is one write to the kernel: a verb (add, set or del) on one resource, or a Transaction. It prints itself as one
// line of a plan. Each operation can be repeated, and deleting what is gone is success.
type Op interface {
	fmt.Stringer
	// owner returns the id of the HNS object that the operation is for; "" for rules, which are those of all objects.
	owner() string
	// record notes in have that the operation was done. want is the state that the plan leads to.
	record(have *State, want State)
	effect // carries it out; empty on systems other than Linux
}

// resource is one thing that the kernel holds for an HNS object. It prints itself as a plan has it behind the verb.
type resource interface {
	fmt.Stringer
	owner() string
	// put and drop note in a state that the kernel holds the resource, or no longer does.
	put(s *State)
	drop(s *State)
	managed // creates and deletes it; empty on systems other than Linux
}

// add makes a resource that is not there.
type add struct{ resource }

// set corrects a resource that is there and differs.
type set struct{ resource }

// del removes a resource.
type del struct{ resource }

func (o add) String() string { return "add " + o.resource.String() }
func (o set) String() string { return "set " + o.resource.String() }
func (o del) String() string { return "del " + o.resource.String() }

func (o add) record(have *State, _ State) { o.put(have) }
func (o set) record(have *State, _ State) { o.put(have) }
func (o del) record(have *State, _ State) { o.drop(have) }

// Drift is one difference between what should be and what is.
type Drift struct {
	ID   string `json:"id,omitempty"` // the object, if it is known
	Text string `json:"text"`         // the write that would correct it
}

// driftOf returns the differences that an operation of a plan stands for.
func driftOf(op Op) []Drift {
	tx, ok := op.(*Transaction)
	if !ok {
		return []Drift{{ID: op.owner(), Text: op.String()}}
	}
	var drift []Drift
	for _, line := range tx.Lines {
		if !strings.HasPrefix(line, "add table ") {
			drift = append(drift, Drift{Text: line})
		}
	}
	return drift
}

// ownNetns is a network namespace that the data plane makes for an HCN namespace without a path.
type ownNetns struct{ id, name string }

func (n ownNetns) String() string { return "netns " + n.name }
func (n ownNetns) owner() string  { return n.id }
func (n ownNetns) put(s *State)   { s.Namespaces[n.name] = n.id }
func (n ownNetns) drop(s *State)  { delete(s.Namespaces, n.name) }

func (b Bridge) String() string { return fmt.Sprintf("bridge %s mtu %d", b.Name, b.MTU) }
func (b Bridge) owner() string  { return b.ID }
func (b Bridge) drop(s *State)  { delete(s.Bridges, b.Name) }

// put leaves the addresses as they are: they are resources of their own.
func (b Bridge) put(s *State) {
	b.Addrs = s.Bridges[b.Name].Addrs
	s.Bridges[b.Name] = b
}

// bridgeAddr is one address of the node on a bridge.
type bridgeAddr struct {
	id, bridge string
	addr       netip.Prefix
	via        netip.Addr // next hop of the default route that comes with it, if any
}

func (a bridgeAddr) String() string { return fmt.Sprintf("address %s on %s", a.addr, a.bridge) }
func (a bridgeAddr) owner() string  { return a.id }

func (a bridgeAddr) put(s *State) {
	a.drop(s)
	b := s.Bridges[a.bridge]
	b.Addrs = append(b.Addrs, a.addr)
	s.Bridges[b.Name] = b
}

func (a bridgeAddr) drop(s *State) {
	b := s.Bridges[a.bridge]
	b.Addrs = slices.DeleteFunc(slices.Clone(b.Addrs), func(other netip.Prefix) bool { return other == a.addr })
	s.Bridges[b.Name] = b
}

func (p Port) String() string {
	return fmt.Sprintf("port %s of %s: %s %v mac %s mtu %d via %s in %s", p.Name, p.Bridge, p.Guest, p.Addrs, p.MAC,
		p.MTU, p.Gateway, p.Netns)
}

func (p Port) owner() string { return p.ID }
func (p Port) put(s *State)  { s.Ports[p.Name] = p }
func (p Port) drop(s *State) { delete(s.Ports, p.Name) }

func (t Tunnel) String() string {
	return fmt.Sprintf("tunnel %s id %d local %s port %d mac %s mtu %d", t.Name, t.VNI, t.Local, t.Port, t.MAC, t.MTU)
}

func (t Tunnel) owner() string { return t.ID }
func (t Tunnel) put(s *State)  { s.Tunnels[t.Name] = t }

// drop forgets all that goes with the device.
func (t Tunnel) drop(s *State) {
	delete(s.Tunnels, t.Name)
	for key, p := range s.Paths {
		if p.Tunnel == t.Name {
			delete(s.Paths, key)
		}
	}
	for key, p := range s.Peers {
		if p.Tunnel == t.Name {
			delete(s.Peers, key)
		}
	}
	for key, a := range s.Arrivals {
		if a.Tunnel == t.Name {
			delete(s.Arrivals, key)
		}
	}
}

func (p Peer) String() string { return fmt.Sprintf("peer %s of %s at %s", p.MAC, p.Tunnel, p.Provider) }
func (p Peer) owner() string  { return p.ID }
func (p Peer) put(s *State)   { s.Peers[p.key()] = p }
func (p Peer) drop(s *State)  { delete(s.Peers, p.key()) }

func (p Path) String() string {
	return fmt.Sprintf("path %s through %s to %s", p.Prefix, p.Tunnel, p.MAC)
}

func (p Path) owner() string { return p.ID }
func (p Path) put(s *State)  { s.Paths[p.key()] = p }
func (p Path) drop(s *State) { delete(s.Paths, p.key()) }

func (a Arrival) String() string {
	return fmt.Sprintf("arrival of %s at %s through %s", a.Addr, a.MAC, a.Tunnel)
}
func (a Arrival) owner() string { return a.ID }
func (a Arrival) put(s *State)  { s.Arrivals[a.key()] = a }
func (a Arrival) drop(s *State) { delete(s.Arrivals, a.key()) }

func (k Keep) String() string {
	return fmt.Sprintf("way of marked packets to %s through %s", k.Addr, k.Bridge)
}
func (k Keep) owner() string { return k.ID }
func (k Keep) put(s *State)  { s.Keeps[k.Addr] = k }
func (k Keep) drop(s *State) { delete(s.Keeps, k.Addr) }
