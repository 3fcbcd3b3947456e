package kernel

import (
	"fmt"
	"net/netip"
	"slices"
)

// Resource is one thing that the kernel holds for an HNS object: a Netns, Bridge, BridgeAddr, Port, Switch, Tunnel,
// Peer, Path, Arrival or Keep. It prints itself as a plan has it behind the verb.
type Resource interface {
	fmt.Stringer
	// Owner returns the id of the HNS object that it is for.
	Owner() string
	// put and drop note in a state that the kernel holds the resource, or no longer does.
	put(s *State)
	drop(s *State)
}

func (n Netns) String() string { return "netns " + n.Name }
func (n Netns) Owner() string  { return n.ID }
func (n Netns) put(s *State)   { s.Namespaces[n.Name] = n.ID }
func (n Netns) drop(s *State)  { delete(s.Namespaces, n.Name) }

func (b Bridge) String() string { return fmt.Sprintf("bridge %s mtu %d", b.Name, b.MTU) }
func (b Bridge) Owner() string  { return b.ID }
func (b Bridge) drop(s *State)  { delete(s.Bridges, b.Name) }

// put leaves the addresses as they are: they are resources of their own.
func (b Bridge) put(s *State) {
	b.Addrs = s.Bridges[b.Name].Addrs
	s.Bridges[b.Name] = b
}

func (a BridgeAddr) String() string { return fmt.Sprintf("address %s on %s", a.Addr, a.Bridge) }
func (a BridgeAddr) Owner() string  { return a.ID }

func (a BridgeAddr) put(s *State) {
	a.drop(s)
	b := s.Bridges[a.Bridge]
	b.Addrs = append(b.Addrs, a.Addr)
	s.Bridges[b.Name] = b
}

func (a BridgeAddr) drop(s *State) {
	b := s.Bridges[a.Bridge]
	b.Addrs = slices.DeleteFunc(slices.Clone(b.Addrs), func(other netip.Prefix) bool { return other == a.Addr })
	s.Bridges[b.Name] = b
}

func (p Port) String() string {
	return fmt.Sprintf("port %s of %s: %s %v mac %s mtu %d via %s in %s", p.Name, p.Bridge, p.Guest, p.Addrs, p.MAC,
		p.MTU, p.Gateway, p.Netns)
}

func (p Port) Owner() string { return p.ID }
func (p Port) put(s *State)  { s.Ports[p.Name] = p }
func (p Port) drop(s *State) { delete(s.Ports, p.Name) }

func (t Tunnel) String() string {
	return fmt.Sprintf("tunnel %s id %d local %s port %d mac %s mtu %d", t.Name, t.VNI, t.Local, t.Port, t.MAC, t.MTU)
}

func (t Tunnel) Owner() string { return t.ID }
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
func (p Peer) Owner() string  { return p.ID }
func (p Peer) put(s *State)   { s.Peers[p.Key()] = p }
func (p Peer) drop(s *State)  { delete(s.Peers, p.Key()) }

func (p Path) String() string {
	return fmt.Sprintf("path %s through %s to %s", p.Prefix, p.Tunnel, p.MAC)
}

func (p Path) Owner() string { return p.ID }
func (p Path) put(s *State)  { s.Paths[p.Key()] = p }
func (p Path) drop(s *State) { delete(s.Paths, p.Key()) }

func (a Arrival) String() string {
	return fmt.Sprintf("arrival of %s at %s through %s", a.Addr, a.MAC, a.Tunnel)
}
func (a Arrival) Owner() string { return a.ID }
func (a Arrival) put(s *State)  { s.Arrivals[a.Key()] = a }
func (a Arrival) drop(s *State) { delete(s.Arrivals, a.Key()) }

func (k Keep) String() string {
	return fmt.Sprintf("way of marked packets to %s through %s", k.Addr, k.Bridge)
}
func (k Keep) Owner() string { return k.ID }
func (k Keep) put(s *State)  { s.Keeps[k.Addr] = k }
func (k Keep) drop(s *State) { delete(s.Keeps, k.Addr) }

func (s Switch) String() string    { return "switch " + s.Link }
func (s Switch) Owner() string     { return s.ID }
func (s Switch) put(state *State)  { state.Switches[s.Link] = s }
func (s Switch) drop(state *State) { delete(state.Switches, s.Link) }
