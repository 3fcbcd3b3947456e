package ipstack

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/wakeup"
)

// links is what a data plane has if the host has an IP stack.
type links interface {
	Links() ([]hoststack.Link, error)
}

// adapter is one network adapter of the host with the link that carries it.
type adapter struct {
	hnsd.Adapter
	link *hoststack.Link
}

// kinds of adapters by the type of Windows' LUIDs (iana ifType), and metrics of interfaces: the automatic ones of 10
// Gbit/s, and of the loopback (learn.microsoft.com, "automatic metric").
const (
	ethernetType, loopbackType     = 6, 24
	ethernetMetric, loopbackMetric = 15, 75
)

// kind is what wire.Adapters says of an adapter: its kind, the type of Windows' LUIDs, and the
// automatic metric.
func (a adapter) kind() (name string, ifType uint64, metric int) {
	switch {
	case a.link.Loopback:
		return wire.AdapterLoopback, loopbackType, loopbackMetric
	case a.Virtual:
		return wire.AdapterVirtual, ethernetType, ethernetMetric
	}
	return wire.AdapterCard, ethernetType, ethernetMetric
}

// luid is not made of the index alone, as on Windows, where it counts interfaces from 32768 on.
// The type is in the upper 16 bits of a LUID, and the index of the net luid in the 24 bits below.
func (a adapter) luid() uint64 {
	_, ifType, _ := a.kind()
	if a.link.Loopback {
		return ifType << 48
	}
	return ifType<<48 | uint64(32768+a.Index)<<24
}

// seenLinks remembers the links of the host for the several questions of which one call of a program consists, and for
// the several programs that are told of one change.
type seenLinks struct {
	mu    sync.Mutex
	last  []hoststack.Link
	began time.Time // when last was asked for
}

// linksFor is how long they are remembered. Whoever tells a program of a change reads them again first.
const linksFor = 5 * time.Millisecond

// links returns the links as they are now, or with fresh false as they were a moment ago. Who waits while another one
// reads them gets what the next reading returns, which is one for all that wait.
func (s *seenLinks) links(plane any, fresh bool) ([]hoststack.Link, error) {
	// A data plane without links has no IP stack, which is no error.
	host, ok := plane.(links)
	if !ok {
		return nil, nil
	}
	oldest := time.Now()
	if !fresh {
		oldest = oldest.Add(-linksFor)
	}

	// The lock is held over the reading, so that those who wait are served by the one reading that
	// began after they asked.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.After(oldest) {
		return s.last, nil
	}
	began := time.Now()
	all, err := host.Links()
	if err == nil {
		s.last, s.began = all, began
	}
	return all, err
}

// forget makes the next question one that reads the links.
func (s *seenLinks) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Time{}
}

// adapters returns the adapters of the host in Windows' order, and all its links, which the caller does not change. It
// returns none if there is no IP stack.
func (s *Stack) adapters(state *hnsd.State, fresh bool) (list []adapter, all []hoststack.Link, err error) {
	if all, err = s.seen.links(s.plane, fresh); err != nil || all == nil {
		return nil, nil, err
	}

	// An adapter is shown if its link is there: a card's by its number, another one's by the bridge
	// of its network.
	for _, a := range hnsd.HostAdapters(state, cards(all, s.uplink)) {
		i := slices.IndexFunc(all, func(l hoststack.Link) bool {
			return a.Network == "" && l.Index == a.Link || a.Network != "" && l.Name == kernel.BridgeName(a.Network)
		})
		// An endpoint whose addresses the link does not have is attached in HNS only.
		if i >= 0 && (len(a.Addrs) == 0 ||
			slices.ContainsFunc(all[i].Addrs,
				func(p netip.Prefix) bool { return slices.Contains(a.Addrs, p.Addr()) })) {
			list = append(list, adapter{Adapter: a, link: &all[i]})
		}
	}
	// Beside HNS' own there are the ports that Open vSwitch made for the host, and the loopback.
	for i := range all {
		if all[i].Tap {
			list = append(list, adapter{link: &all[i], Adapter: hnsd.InternalAdapter(all[i].Index, all[i].Name)})
		}
		if all[i].Loopback {
			list = append(list, adapter{link: &all[i],
				Adapter: hnsd.Adapter{Index: all[i].Index, Alias: "Loopback Pseudo-Interface 1",
					Description: "Software Loopback Interface 1", GUID: "00000000-0000-4000-8000-000000000001"}})
		}
	}
	return list, all, nil
}

// cards are the network cards among the links, the uplink first.
// Names follow from the order: the first one is "Ethernet".
func cards(all []hoststack.Link, uplink string) []hnsd.Card {
	var list []hnsd.Card
	for _, l := range all {
		if l.Card && l.Name == uplink {
			list = slices.Insert(list, 0, hnsd.Card{Link: l.Index})
		} else if l.Card {
			list = append(list, hnsd.Card{Link: l.Index})
		}
	}
	for i, name := range hnsd.CardNames(len(list)) {
		list[i].Name = name
	}
	return list
}

// CardNames returns what Windows calls the network cards, the uplink first. It returns none if there is no IP stack.
func (s *Stack) CardNames() ([]string, error) {
	all, err := s.seen.links(s.plane, true)
	if err != nil || all == nil {
		return nil, err
	}
	return hnsd.CardNames(len(cards(all, s.uplink))), nil
}

// owner returns the adapter that has an address of a link, or nil: HNS's own addresses in its networks are no
// adapter's. An address that is invalid stands for what is not about one.
// Several adapters can share a link: that of a bridge carries those of all endpoints of its
// network.
func owner(list []adapter, link *hoststack.Link, addr netip.Prefix) *adapter {
	first := -1
	for i := range list {
		a := &list[i]
		if a.link.Index != link.Index || a.Unbound {
			continue
		}
		if len(a.Addrs) == 0 || slices.Contains(a.Addrs, addr.Addr()) {
			return a
		}
		if first < 0 {
			first = i
		}
	}
	// An address with a shorter prefix than its family's full length is HNS' own, a gateway of the
	// network.
	if first < 0 || addr.IsValid() && addr.Bits() < addr.Addr().BitLen() {
		return nil
	}
	return &list[first] // a program gave it to the adapter, for itself alone
}

// ListAdapters answers wire.Adapters.
func (s *Stack) ListAdapters() (string, error) {
	list, all, err := s.adapters(s.state(), false)
	if err != nil {
		return "", err
	}

	var b strings.Builder
	for _, a := range list {
		kind, _, metric := a.kind()
		bound := 1
		if a.Unbound {
			bound = 0
		}
		fmt.Fprintf(&b, "adapter\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%s\t%s\n", a.Index, a.link.Index, a.luid(), bound, kind,
			metric, a.GUID, a.Alias, a.Description)
	}
	// An address line with adapter 0 hides an address; without a line it is that of the link's
	// adapter.
	for i := range all {
		for _, addr := range all[i].Addrs {
			if a := owner(list, &all[i], addr); a == nil {
				fmt.Fprintf(&b, "address\t%d\t%s\t0\n", all[i].Index, hex.EncodeToString(addr.Addr().AsSlice()))
			} else if len(a.Addrs) > 0 {
				fmt.Fprintf(&b, "address\t%d\t%s\t%d\n", all[i].Index, hex.EncodeToString(addr.Addr().AsSlice()),
					a.Index)
			}
		}
	}
	b.WriteString(s.dns.lines(list, s.uplink))
	return b.String(), nil
}

// linkOf returns the link behind an interface index of Windows; 0: there is none with IP.
// Without an IP stack indexes are the links' own.
func (s *Stack) linkOf(index int) int {
	list, all, err := s.adapters(s.state(), false)
	if err != nil || all == nil {
		return index
	}
	for _, a := range list {
		if a.Index == index && !a.Unbound {
			return a.link.Index
		}
	}
	return 0
}

// shownAs gives an event of a link the index that Windows shows. false: the link is no adapter of the host. An event
// about a link that is gone has index 0.
func (s *Stack) shownAs(kind string, e hoststack.Event) (hoststack.Event, bool) {
	list, all, err := s.adapters(s.state(), true)
	if err != nil || all == nil {
		return e, true
	}
	i := slices.IndexFunc(all, func(l hoststack.Link) bool { return l.Index == e.Link })
	if i < 0 {
		e.Link = 0
		return e, kind != eventInterfaces
	}
	// Only events of addresses are about one of several adapters of a link.
	addr := netip.Prefix{}
	if kind == eventAddresses {
		addr = e.Prefix
	}
	a := owner(list, &all[i], addr)
	if a == nil {
		e.Link = 0
		return e, kind == eventAddresses && e.Type == hoststack.EventDelete // perhaps of an adapter that goes
	}
	e.Link = a.Index
	return e, true
}

// The kinds of events of the host's stack.
const (
	eventInterfaces = "interfaces"
	eventAddresses  = "addresses"
)

// shown tells programs about adapters that take the place of others without a change of the links.
type shown struct{ wakeup.Topic[stackEvent] }

type stackEvent struct {
	kind string
	hoststack.Event
}

// Changed does what Windows does when a network comes or goes and with it the adapter that has a card's
// addresses: settings of an adapter are gone with it, and programs are told. What becomes of the adapters of endpoints
// the kernel tells.
func (s *Stack) Changed(ctx context.Context, old, next *hnsd.State) {
	// What was read before the change is not to be used for comparing.
	s.seen.forget()
	if old.Count(hnsd.Network) == next.Count(hnsd.Network) {
		return
	}
	before, _, err := s.adapters(old, true)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Looking for changes of the host's adapters")
		return
	}
	after, _, err := s.adapters(next, false)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Looking for changes of the host's adapters")
		return
	}

	// The cards that lose or get back their addresses play their takeover first; programs hear of
	// it by the events of the kernel and of shown.
	s.takeover.start(ctx, taken(before, after))
	for _, a := range missing(before, after) {
		s.shown.moved(a, hoststack.EventDelete)
	}
	// A new adapter begins without forwarding: settings went with the old one.
	for _, a := range missing(after, before) {
		if host, ok := s.plane.(interfaces); ok {
			for _, six := range []bool{false, true} {
				if err := host.SetForwarding(a.link.Index, six, false); err != nil {
					klog.FromContext(ctx).Error(err, "Settings of a new adapter", "adapter", a.Alias)
				}
			}
		}
		s.shown.moved(a, hoststack.EventAdd)
	}
}

// missing returns the adapters of cards with IP in list that others does not have.
func missing(list, others []adapter) []adapter {
	return slices.DeleteFunc(slices.Clone(list), func(a adapter) bool {
		return a.Unbound || a.Network != "" ||
			slices.ContainsFunc(others, func(b adapter) bool { return !b.Unbound && a.Index == b.Index })
	})
}

// moved tells of an adapter that came or went with its addresses.
// Programs get an event for the interface, and one for each of its addresses.
func (s *shown) moved(a adapter, how hoststack.EventType) {
	s.Send(stackEvent{eventInterfaces, hoststack.Event{Type: how, Route: hoststack.Route{Link: a.Index}}})
	for _, addr := range a.link.Addrs {
		if len(a.Addrs) == 0 || slices.Contains(a.Addrs, addr.Addr()) {
			s.Send(stackEvent{eventAddresses,
				hoststack.Event{Type: how, Route: hoststack.Route{Link: a.Index, Prefix: addr}}})
		}
	}
}
