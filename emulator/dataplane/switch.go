package dataplane

import (
	"fmt"

	"porthole.dev/porthole/emulator/desired"
)

// Transparent networks. Their endpoints are in the segment of a network card, with addresses and a MAC of that
// segment, so the card becomes a port of a bridge:
//
//	pod ─ veth ─ hnsv… ┐
//	                   ├ eth0: a bridge with the card's name, MAC, addresses and routes ─ hnsueth0: the card ── the segment
//	the host's stack ──┘
//
// The bridge takes the card's name, so all rules that name the uplink stay as they are. Packets between endpoints and
// the segment do not pass the host's IP stack or the table: no policy of HNS has an effect on them. Windows' virtual
// filtering platform, which carries policies out, is not enabled on transparent networks either (unverified, no. 80).

// Switch is a network card that is a port of a bridge.
type Switch struct {
	ID   string // of the first network that needs it
	Link string // name of the bridge, which was the card's
}

// cardPrefix is the start of the name of a card that is a port of a Switch; bridgePrefix that of its bridge while it
// is made or removed.
const cardPrefix, bridgePrefix = "hnsu", "hnst"

func (s Switch) String() string     { return "switch " + s.Link }
func (s Switch) owner() string      { return s.ID }
func (s Switch) put(state *State)   { state.Switches[s.Link] = s }
func (s Switch) drop(state *State)  { delete(state.Switches, s.Link) }
func (s Switch) card() string       { return cardPrefix + s.Link }
func (s Switch) unfinished() string { return bridgePrefix + s.Link }

// renderTransparent renders the switch of a Transparent network. Its subnets may contain the node's address: it is the
// same segment.
func renderTransparent(r *renderer, n *desired.Network) {
	r.networks[n.ID] = n
	if n.Extension {
		return // Open vSwitch forwards, to its own ports
	}
	link := r.facts.Uplink
	if len(cardPrefix+link) > maxLinkName {
		r.state.Rejected[n.ID] = fmt.Errorf("carrying network %s: the name of network card %s is too long for a switch",
			n.ID, link)
		return
	}
	if _, ok := r.state.Switches[link]; !ok {
		r.state.Switches[link] = Switch{ID: n.ID, Link: link}
	}
}

// maxLinkName is how long the name of a link can be on Linux (IFNAMSIZ, less the final zero).
const maxLinkName = 15

// segmentPort completes the port of an endpoint in the segment of a network card. It may have no address: then the
// guest's own programs get one.
func segmentPort(p Port, e *desired.Endpoint, n *desired.Network, f Facts) Port {
	p.Bridge, p.Open, p.Gateway6 = f.Uplink, true, e.Gateway6
	if n.Extension {
		p.Bridge, p.Extension = "", e.Name
	}
	p.Addrs = nil
	for _, a := range e.Addrs {
		bits := a.Bits()
		for _, s := range n.Subnets {
			if s.Prefix.Contains(a.Addr()) && (bits <= 0 || bits == a.Addr().BitLen()) {
				bits = s.Prefix.Bits()
			}
		}
		p.Addrs = append(p.Addrs, prefixOfLength(a.Addr(), bits))
	}
	if p.MTU == 0 {
		p.MTU = f.MTU
	}
	return p
}
