package links

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
)

// card is a network card that becomes a port of a switch.
type card struct{ kernel.Switch }

// create puts the card behind a bridge that takes over its name, MAC, addresses, routes and settings. At each step
// either the card or the bridge has them, and the next attempt goes on from there.
func (s card) create(d *Host) error {
	card, err := d.h.Named(s.Card())
	if card == nil && err == nil {
		card, err = d.h.Named(s.Link)
	}
	if err != nil || card == nil || card.Type() == "bridge" {
		return errors.Join(fmt.Errorf("there is no network card %s", s.Link), err)
	}
	bridge, err := s.bridge(d, card)
	if err != nil {
		return err
	}
	if err := d.stack.CopyAddrs(card, bridge); err != nil {
		return err
	}
	if err := d.h.LinkSetMaster(card, bridge); err != nil {
		return fmt.Errorf("joining the card to the switch: %w", err)
	}
	if err := d.h.LinkSetUp(card); err != nil {
		return err
	}

	if card.Attrs().Name != s.Card() {
		if err := d.h.LinkSetName(card, s.Card()); err != nil {
			return fmt.Errorf("renaming the card: %w", err)
		}
	}
	if bridge.Attrs().Name != s.Link {
		if err := d.h.LinkSetName(bridge, s.Link); err != nil {
			return fmt.Errorf("naming the switch: %w", err)
		}
	}
	return d.stack.Move(card, bridge)
}

// bridge returns the switch's bridge, and makes it if there is none.
func (s card) bridge(d *Host, card netlink.Link) (netlink.Link, error) {
	for _, name := range []string{s.Link, s.Unfinished()} {
		link, err := d.h.Named(name)
		if err != nil {
			return nil, err
		}
		if link != nil && link.Type() == "bridge" {
			return link, d.h.LinkSetUp(link)
		}
	}
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	br.Name, br.MTU, br.HardwareAddr = s.Unfinished(), card.Attrs().MTU, card.Attrs().HardwareAddr
	if err := d.h.LinkAdd(br); err != nil {
		return nil, fmt.Errorf("making the switch: %w", err)
	}
	link, err := d.h.LinkByName(br.Name)
	if err != nil {
		return nil, err
	}
	return link, d.h.LinkSetUp(link)
}

// delete gives the card what the bridge has.
func (s card) delete(d *Host) error {
	card, err := d.h.Named(s.Card())
	if err != nil {
		return err
	}
	if card == nil {
		if card, err = d.h.Named(s.Link); err != nil || card == nil {
			return err
		}
	}
	bridge, err := d.h.Named(s.Link)
	if err == nil && (bridge == nil || bridge.Type() != "bridge") {
		bridge, err = d.h.Named(s.Unfinished())
	}
	if err != nil || bridge == nil {
		return err
	}

	if err := d.h.LinkSetNoMaster(card); err != nil {
		return fmt.Errorf("taking the card off the switch: %w", err)
	}
	if err := d.stack.CopyAddrs(bridge, card); err != nil {
		return err
	}
	if bridge.Attrs().Name == s.Link {
		if err := d.h.LinkSetName(bridge, s.Unfinished()); err != nil {
			return fmt.Errorf("renaming the switch: %w", err)
		}
	}
	if card.Attrs().Name != s.Link {
		if err := d.h.LinkSetName(card, s.Link); err != nil {
			return fmt.Errorf("naming the card: %w", err)
		}
	}
	if err := d.stack.Move(bridge, card); err != nil {
		return err
	}
	return d.h.LinkDel(bridge)
}

// observeSwitch notes the switch of a card in have. One that is wanted and half made is left out, so that the next
// plan makes the rest; one that nothing wants is noted in any state, without an id, so that the next plan deletes it.
func observeSwitch(h *rtnl.Handle, card netlink.Link, want kernel.State, have *kernel.State) {
	link := card.Attrs().Name[len(kernel.CardPrefix):]
	w, wanted := want.Switches[link]
	if wanted && !handedOver(h, card, link) {
		return
	}
	have.Switches[link] = kernel.Switch{ID: w.ID, Link: link}
}

// handedOver reports whether a card is a port of the bridge that has its name, and has given its IPv4 addresses to it.
func handedOver(h *rtnl.Handle, card netlink.Link, name string) bool {
	master, err := h.LinkByIndex(card.Attrs().MasterIndex)
	if err != nil || master.Attrs().Name != name {
		return false
	}
	addrs, err := h.AddrList(card, netlink.FAMILY_V4)
	return err != nil || len(addrs) == 0
}
