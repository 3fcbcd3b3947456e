package dataplane

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// create puts the card behind a bridge that takes over its name, MAC, addresses, routes and settings. At each step
// either the card or the bridge has them, and the next attempt goes on from there.
func (s Switch) create(d *DataPlane) error {
	card, err := d.linkNamed(s.card())
	if card == nil && err == nil {
		card, err = d.linkNamed(s.Link)
	}
	if err != nil || card == nil || card.Type() == "bridge" {
		return errors.Join(fmt.Errorf("there is no network card %s", s.Link), err)
	}
	bridge, err := s.bridge(d, card)
	if err != nil {
		return err
	}
	if err := d.copyAddrs(card, bridge); err != nil {
		return err
	}
	if err := d.handle.LinkSetMaster(card, bridge); err != nil {
		return fmt.Errorf("joining the card to the switch: %w", err)
	}
	if err := d.handle.LinkSetUp(card); err != nil {
		return err
	}

	if card.Attrs().Name != s.card() {
		if err := d.handle.LinkSetName(card, s.card()); err != nil {
			return fmt.Errorf("renaming the card: %w", err)
		}
	}
	if bridge.Attrs().Name != s.Link {
		if err := d.handle.LinkSetName(bridge, s.Link); err != nil {
			return fmt.Errorf("naming the switch: %w", err)
		}
	}
	return d.moveStack(card, bridge)
}

// bridge returns the switch's bridge, and makes it if there is none.
func (s Switch) bridge(d *DataPlane, card netlink.Link) (netlink.Link, error) {
	for _, name := range []string{s.Link, s.unfinished()} {
		link, err := d.linkNamed(name)
		if err != nil {
			return nil, err
		}
		if link != nil && link.Type() == "bridge" {
			return link, d.handle.LinkSetUp(link)
		}
	}
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	br.Name, br.MTU, br.HardwareAddr = s.unfinished(), card.Attrs().MTU, card.Attrs().HardwareAddr
	if err := d.handle.LinkAdd(br); err != nil {
		return nil, fmt.Errorf("making the switch: %w", err)
	}
	link, err := d.handle.LinkByName(br.Name)
	if err != nil {
		return nil, err
	}
	return link, d.handle.LinkSetUp(link)
}

// delete gives the card what the bridge has.
func (s Switch) delete(d *DataPlane) error {
	card, err := d.linkNamed(s.card())
	if err != nil {
		return err
	}
	if card == nil {
		if card, err = d.linkNamed(s.Link); err != nil || card == nil {
			return err
		}
	}
	bridge, err := d.linkNamed(s.Link)
	if err == nil && (bridge == nil || bridge.Type() != "bridge") {
		bridge, err = d.linkNamed(s.unfinished())
	}
	if err != nil || bridge == nil {
		return err
	}

	if err := d.handle.LinkSetNoMaster(card); err != nil {
		return fmt.Errorf("taking the card off the switch: %w", err)
	}
	if err := d.copyAddrs(bridge, card); err != nil {
		return err
	}
	if bridge.Attrs().Name == s.Link {
		if err := d.handle.LinkSetName(bridge, s.unfinished()); err != nil {
			return fmt.Errorf("renaming the switch: %w", err)
		}
	}
	if card.Attrs().Name != s.Link {
		if err := d.handle.LinkSetName(card, s.Link); err != nil {
			return fmt.Errorf("naming the card: %w", err)
		}
	}
	if err := d.moveStack(bridge, card); err != nil {
		return err
	}
	return d.handle.LinkDel(bridge)
}

// observeSwitch notes the switch of a card in have. One that is wanted and half made is left out, so that the next
// plan makes the rest; one that nothing wants is noted in any state, without an id, so that the next plan deletes it.
func observeSwitch(h *netlink.Handle, card netlink.Link, want State, have *State) {
	link := card.Attrs().Name[len(cardPrefix):]
	w, wanted := want.Switches[link]
	if wanted && !handedOver(h, card, link) {
		return
	}
	have.Switches[link] = Switch{ID: w.ID, Link: link}
}

// handedOver reports whether a card is a port of the bridge that has its name, and has given its IPv4 addresses to it.
func handedOver(h *netlink.Handle, card netlink.Link, name string) bool {
	master, err := h.LinkByIndex(card.Attrs().MasterIndex)
	if err != nil || master.Attrs().Name != name {
		return false
	}
	addrs, err := h.AddrList(card, netlink.FAMILY_V4)
	return err != nil || len(addrs) == 0
}

// linkNamed returns nil if there is no link of that name.
func (s *IPStack) linkNamed(name string) (netlink.Link, error) {
	link, err := s.handle.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	return link, err
}

// copyAddrs gives to the addresses of from that the kernel did not make itself.
func (s *IPStack) copyAddrs(from, to netlink.Link) error {
	addrs, err := s.handle.AddrList(from, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("reading addresses of %s: %w", from.Attrs().Name, err)
	}
	for _, p := range prefixes(addrs) {
		if err := s.handle.AddrReplace(to, netlinkAddr(p)); err != nil {
			return fmt.Errorf("giving %s address %s: %w", to.Attrs().Name, p, err)
		}
	}
	return nil
}

// moveStack moves routes and forwarding to a link that has the addresses of from already, and then takes those off
// from.
func (s *IPStack) moveStack(from, to netlink.Link) error {
	for _, six := range []bool{false, true} {
		if have, err := s.Interface(from.Attrs().Index, six); err == nil && have.Forwarding {
			if err := s.SetForwarding(to.Attrs().Index, six, true); err != nil {
				return err
			}
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := s.handle.RouteList(from, family)
		if err != nil {
			return fmt.Errorf("reading routes: %w", err)
		}
		for _, r := range routes {
			if r.Protocol == unix.RTPROT_KERNEL || r.Type != unix.RTN_UNICAST {
				continue
			}
			// the others say how the kernel sees it
			r.LinkIndex, r.Flags = to.Attrs().Index, r.Flags&int(netlink.FLAG_ONLINK)
			if err := s.handle.RouteReplace(&r); err != nil {
				return fmt.Errorf("moving route %s: %w", routeText(r), err)
			}
		}
	}

	addrs, err := s.handle.AddrList(from, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for i := range addrs {
		if ip := addrs[i].IP; ip.To4() == nil && ip.IsLinkLocalUnicast() {
			continue
		}
		if err := s.handle.AddrDel(from, &addrs[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("taking address %s off %s: %w", addrs[i].IPNet, from.Attrs().Name, err)
		}
	}
	return nil
}

func routeText(r netlink.Route) string {
	if r.Dst == nil {
		return "default via " + net.IP(r.Gw).String()
	}
	return r.Dst.String()
}
