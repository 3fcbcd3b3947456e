package config

import (
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/node/routes"
)

// roomInCards is the greatest length of WindowsNIC's subnet: see addressIn.
const roomInCards = 24

// addressIn returns the node's address in a subnet of second network cards, with the subnet's length. Its last byte is
// that of the node's own address.
func (n Node) addressIn(subnet netip.Prefix) netip.Prefix {
	b := subnet.Addr().As4()
	b[3] = n.Address.As4()[3]
	return netip.PrefixFrom(netip.AddrFrom4(b), subnet.Bits())
}

// tunnels is the segment of the cards for tunnels between nodes.
var tunnels = netip.MustParsePrefix("10.98.0.0/24")

// hasTunnelCards reports whether each node has a second network card, which carries the tunnels of its mode of the
// network (package network makes it).
func (c Cluster) hasTunnelCards() bool { return c.Network == routes.OVN }

// TunnelCard returns the card for tunnels of a node, in a mode in which nodes have one.
func (n Node) TunnelCard() lab.Card { return lab.Card{Address: n.addressIn(tunnels)} }

// card returns the second network card of a Windows node that its user has asked for; ok is false if it has one only.
func (c Cluster) card(n Node) (card lab.Card, ok bool, err error) {
	if c.WindowsNIC == "" || !n.Windows {
		return card, false, nil
	}
	if card, err = lab.ParseCard(c.WindowsNIC); err != nil {
		return card, false, fmt.Errorf("--windows-nic: %w", err)
	}
	if !card.Address.Addr().Is4() || card.Address.Bits() > roomInCards || card.Address != card.Address.Masked() {
		return card, false, fmt.Errorf(
			"--windows-nic %s: give a subnet of IPv4 with room for all nodes, such as 10.98.0.0/%d", c.WindowsNIC,
			roomInCards)
	}
	card.Address = n.addressIn(card.Address)
	return card, true, nil
}

// Cards is card for a configuration that Validate has accepted.
func (c Cluster) Cards(n Node) []lab.Card {
	if card, ok, err := c.card(n); ok && err == nil {
		return []lab.Card{card}
	}
	return nil
}

// checkCards returns an error that names the flag if Windows nodes cannot have the second card, or do not have the
// adapter.
func (c Cluster) checkCards() error {
	adapters := []string{"Ethernet"}
	if c.WindowsNIC != "" || c.hasTunnelCards() {
		adapters = append(adapters, "Ethernet 2")
	}
	if c.WindowsAdapter != "" && !slices.Contains(adapters, c.WindowsAdapter) {
		return fmt.Errorf(
			"--windows-adapter %q: Windows nodes of this cluster have %q only (--windows-nic gives them another)",
			c.WindowsAdapter, adapters)
	}
	if c.WindowsNIC == "" {
		return nil
	}
	if c.hasTunnelCards() {
		return fmt.Errorf("--windows-nic: in the mode %s nodes have a second network card already", c.Network)
	}

	for last := firstWindows; last < firstWindows+max(c.WindowsNodes, 1); last++ {
		if err := c.checkCard(Node{Windows: true, Address: address(last)}); err != nil {
			return err
		}
	}
	return nil
}

// checkCard returns an error if a Windows node cannot have the second card.
func (c Cluster) checkCard(n Node) error {
	card, _, err := c.card(n)
	if err == nil {
		err = lab.CheckCards([]lab.Card{card})
	}
	if err != nil {
		return err
	}
	ranges, err := c.Ranges()
	if err != nil {
		return err
	}
	for _, pods := range ranges.Pods {
		if pods.Overlaps(card.Address) {
			return fmt.Errorf("--windows-nic %s overlaps with the range of the pods, %s", c.WindowsNIC, pods)
		}
	}
	return nil
}
