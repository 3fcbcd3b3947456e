package hnsd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
)

// Card is one network card of the host.
type Card struct {
	Name string // "Ethernet", "Ethernet 2", …
	Link int    // its number in the data plane, which is its interface index as long as no virtual switch has it
}

// Adapter is a network adapter of the host as Windows shows it: a card, the adapter that a virtual switch puts in a
// card's place, or that of an endpoint of the host.
type Adapter struct {
	Index       int
	Alias       string // what users see, "vEthernet (Ethernet)"
	Description string
	GUID        string // lower case
	// Link is the number of the link that carries it, if that is a card's; else Network is the network whose switch
	// does.
	Link    int
	Network string
	// Unbound adapters have no IP: cards that a virtual switch has taken over.
	Unbound bool
	// Virtual adapters are those of virtual switches and endpoints.
	Virtual bool
	// Addrs are those of an endpoint; empty: all addresses of the link.
	Addrs []netip.Addr
}

// Descriptions of adapters; a second one of a kind ends with " #2".
const (
	cardDescription    = "Microsoft Hyper-V Network Adapter"
	virtualDescription = "Hyper-V Virtual Ethernet Adapter"
)

// CardNames returns what Windows calls n cards.
func CardNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, numbered("Ethernet", " ", i))
	}
	return names
}

// numbered is name for the first of a kind and name, mark and number for those after it: Windows
// counts from 2.
func numbered(name, mark string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s%s%d", name, mark, i+1)
}

// HostAdapters returns the adapters of a host with these cards. The newest come first, because programs must not rely
// on an order: Windows sorts adapters by metric only. While a network is bound to a card, the adapter "vEthernet
// (CARD)" has the card's addresses and an index of its own. When the last such network is deleted, the card's adapter
// has them again.
// The order of the steps decides about numbers and indexes: cards first, then what took their
// place, then NAT networks, then endpoints of the host.
func HostAdapters(s *State, cards []Card) []Adapter {
	var list []Adapter
	for i, c := range cards {
		list = append(list, Adapter{Index: c.Link, Alias: c.Name, Description: numbered(cardDescription, " #", i),
			GUID: adapterGUID("card", c.Name), Link: c.Link})
	}

	// add completes an adapter that is no card.
	virtual := 0
	add := func(a Adapter, id string) {
		a.Description = numbered(virtualDescription, " #", virtual)
		a.Index = virtualIndex(list, id)
		a.GUID = adapterGUID("virtual", id)
		list = append(list, a)
		virtual++
	}
	// Only the first network on a card takes it over; further networks share its virtual adapter.
	for _, n := range s.List(Network) {
		if i := cardOf(n, cards); i >= 0 && !list[i].Unbound {
			list[i].Unbound = true
			add(Adapter{Alias: "vEthernet (" + cards[i].Name + ")", Link: cards[i].Link, Virtual: true}, n.ID)
		}
	}
	for _, n := range s.List(Network) {
		if n.network.kind == "NAT" {
			add(natAdapter(n), n.ID)
		}
	}
	for _, e := range hostEndpoints(s) {
		if a, ok := endpointAdapter(s, e); ok {
			add(a, e.ID)
		}
	}
	slices.Reverse(list)
	return list
}

// InternalAdapter returns the adapter of a port that Open vSwitch made for the host. Its name is the port's
// (openvswitch Documentation/intro/install/windows.rst).
func InternalAdapter(link int, name string) Adapter {
	return Adapter{Index: link, Alias: name, Description: virtualDescription + " " + name,
		GUID: adapterGUID("internal", name), Link: link, Virtual: true}
}

// cardOf returns which card a network is bound to; -1: none.
// A network that names no card, or none of these, is bound to the first of the list.
func cardOf(network *Object, cards []Card) int {
	if !bindsAdapter(network.network.kind) || len(cards) == 0 {
		return -1
	}
	for _, name := range network.network.cards {
		if i := slices.IndexFunc(cards, func(c Card) bool { return strings.EqualFold(c.Name, name) }); i >= 0 {
			return i
		}
	}
	return 0
}

// hostEndpoints returns the endpoints that are attached to the host, in that order. There may be many others.
func hostEndpoints(s *State) (list []*Object) {
	for _, ns := range s.List(Namespace) {
		if !ns.namespace.host() {
			continue
		}
		for _, id := range ns.namespace.endpoints {
			if e, ok := s.Get(Endpoint, id); ok {
				list = append(list, e)
			}
		}
	}
	return list
}

// natAdapter returns the host's adapter in a NAT network, which has the gateways' addresses: Docker's network "nat"
// shows as "vEthernet (nat)".
func natAdapter(network *Object) Adapter {
	a := Adapter{Alias: "vEthernet (" + network.network.name + ")", Network: network.ID, Virtual: true}
	for _, s := range network.network.plane.Subnets {
		a.Addrs = append(a.Addrs, s.Gateway)
	}
	return a
}

// endpointAdapter returns the adapter of an endpoint that is attached to the host. Only networks with packets have one.
func endpointAdapter(s *State, e *Object) (Adapter, bool) {
	network, ok := s.Get(Network, e.endpoint.network)
	if !ok || !network.network.carried() {
		return Adapter{}, false
	}
	return Adapter{Alias: "vEthernet (" + e.endpoint.name + ")", Network: network.ID, Virtual: true,
		Addrs: slices.Clone(e.endpoint.addrs)}, true
}

// virtualIndex is an interface index that none of the adapters has, another one for each object.
// The index depends on the id only, so that it is the same after hnsd has started again; a
// collision moves to the next free one. It is 1000 and above.
func virtualIndex(list []Adapter, id string) int {
	sum := fnv.New32a()
	sum.Write([]byte(id))
	index := 1000 + int(sum.Sum32()%100000)
	for slices.ContainsFunc(list, func(a Adapter) bool { return a.Index == index }) {
		index++
	}
	return index
}

// adapterGUID is made of what the adapter stands for, so that an adapter that comes back has its
// GUID again. It has the form of a random GUID (version 4).
func adapterGUID(kind, id string) string {
	sum := sha256.Sum256([]byte(kind + "/" + id))
	h := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[13:16], h[17:20], h[20:32])
}
