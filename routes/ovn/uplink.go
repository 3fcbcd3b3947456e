package ovn

import (
	"fmt"
	"net/netip"
	"slices"
)

// String is the route as `ip route` writes it.
func (r HostRoute) String() string {
	text := r.Dst.String()
	if r.Dst.Bits() == 0 {
		text = "default"
	}
	if r.Via.IsValid() {
		text += " via " + r.Via.String()
	}
	if r.Metric != 0 {
		text += fmt.Sprint(" metric ", r.Metric)
	}
	return text
}

// sameKey reports whether the kernel's table has room for one of the two routes only.
func (r HostRoute) sameKey(other HostRoute) bool {
	return r.Dst == other.Dst && r.Metric == other.Metric
}

// uplink plans br-ex. The kernel deletes the routes through a card with its last address. Addresses and routes of the
// card are therefore written into the database before the card loses them, so that a pass after a crash completes the
// move, and so that they are put back after a restart of ovs-vswitchd. If somebody replaces one of them on br-ex, or
// gives the card another one, those are remembered.
func uplink(o Options, seen Seen) []Change {
	card, there := seen.Links[o.Uplink]
	bridge, made := seen.Bridges[external]
	if _, port := bridge.Ports[o.Uplink]; !made || !port {
		if !there || len(card.Addrs) == 0 && !made {
			return nil // the routes report it: no link has the tunnels' address, so the MTU is 0
		}
		return []Change{{Verb: AddBridge, Name: external, Bridge: o.Uplink, Kind: o.Datapath, MAC: card.MAC,
			Addrs: card.Addrs, Routes: card.Routes,
			Why: "the switch is a program and sends the tunnels itself"}}
	}

	var ops []Change
	if there && !card.Prepared {
		ops = append(ops, Change{Verb: Prepare, Name: o.Uplink})
	}
	link, up := seen.Links[external]
	if !up {
		return ops // ovs-vswitchd makes it
	}
	if c, changed := remember(o, bridge, card, link); changed {
		return append(ops, c)
	}
	move := Change{Verb: MoveAddress, Name: external, From: o.Uplink}
	move.Addrs = slices.DeleteFunc(slices.Clone(bridge.Addrs), func(a netip.Prefix) bool {
		return slices.Contains(link.Addrs, a) && !slices.Contains(card.Addrs, a)
	})
	move.Routes = slices.DeleteFunc(slices.Clone(bridge.Routes),
		func(r HostRoute) bool { return slices.ContainsFunc(link.Routes, r.sameKey) })
	if len(move.Addrs) > 0 || len(move.Routes) > 0 || !link.Up {
		ops = append(ops, move)
	}
	return ops
}

// remember plans that br-ex keeps what it, or the card, was given by somebody else. changed is false if there is
// nothing new.
func remember(o Options, bridge Bridge, card, link Link) (c Change, changed bool) {
	c = Change{Verb: Remember, Name: external, Addrs: bridge.Addrs, Routes: bridge.Routes}
	isNew := func(a netip.Prefix) bool { return !slices.Contains(bridge.Addrs, a) }
	missing := slices.ContainsFunc(bridge.Addrs, func(a netip.Prefix) bool { return !slices.Contains(link.Addrs, a) })
	switch {
	case slices.ContainsFunc(card.Addrs, isNew):
		c.Addrs = slices.Concat(bridge.Addrs,
			slices.DeleteFunc(slices.Clone(card.Addrs), func(a netip.Prefix) bool { return !isNew(a) }))
		c.Why = o.Uplink + " was given others"
	case missing && len(card.Addrs) == 0 && slices.ContainsFunc(link.Addrs, isNew):
		c.Addrs, c.Why = link.Addrs, "it was given others"
	}

	for _, r := range slices.Concat(card.Routes, link.Routes) { // those of br-ex win
		if slices.Contains(c.Routes, r) {
			continue
		}
		c.Routes = append(slices.DeleteFunc(slices.Clone(c.Routes), r.sameKey), r)
		if c.Why == "" {
			c.Why = "the host has other routes"
		}
	}
	return c, c.Why != ""
}
