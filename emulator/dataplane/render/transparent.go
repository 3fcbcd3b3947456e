package render

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rules"
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

// transparent renders the switch of a Transparent network. Its subnets may contain the node's address: it is the
// same segment.
func transparent(h *rules.Host, state *kernel.State, n *desired.Network) {
	h.Networks[n.ID] = n
	if n.Extension {
		return // Open vSwitch forwards, to its own ports
	}
	link := h.Facts.Uplink
	if len(kernel.CardPrefix+link) > kernel.MaxLinkName {
		h.Rejected[n.ID] = fmt.Errorf("carrying network %s: the name of network card %s is too long for a switch",
			n.ID, link)
		return
	}
	if _, ok := state.Switches[link]; !ok {
		state.Switches[link] = kernel.Switch{ID: n.ID, Link: link}
	}
}

// segmentPort completes the port of an endpoint in the segment of a network card. It may have no address: then the
// guest's own programs get one.
func segmentPort(p kernel.Port, e *desired.Endpoint, n *desired.Network, f kernel.Facts) kernel.Port {
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

func prefixOfLength(a netip.Addr, bits int) netip.Prefix {
	if bits <= 0 {
		bits = a.BitLen()
	}
	return netip.PrefixFrom(a, bits)
}
