package cluster

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/emulator/lab"
)

// roomInCards is the greatest length of WindowsNIC's subnet: nodes have the same last byte there as in the network of the nodes.
const roomInCards = 24

// card returns the second network card of a Windows node; ok is false if it has one only.
func (c Config) card(n Node) (card lab.Card, ok bool, err error) {
	if c.WindowsNIC == "" || !n.Windows {
		return card, false, nil
	}
	if card, err = lab.ParseCard(c.WindowsNIC); err != nil {
		return card, false, fmt.Errorf("--windows-nic: %w", err)
	}
	if !card.Address.Addr().Is4() || card.Address.Bits() > roomInCards || card.Address != card.Address.Masked() {
		return card, false, fmt.Errorf("--windows-nic %s: give a subnet of IPv4 with room for all nodes, such as 10.98.0.0/%d", c.WindowsNIC, roomInCards)
	}
	b := card.Address.Addr().As4()
	b[3] = n.Address.As4()[3]
	card.Address = netip.PrefixFrom(netip.AddrFrom4(b), card.Address.Bits())
	return card, true, nil
}

// cards is card for a configuration that Validate has accepted.
func (c Config) cards(n Node) []lab.Card {
	if card, ok, err := c.card(n); ok && err == nil {
		return []lab.Card{card}
	}
	return nil
}

// checkCards returns an error that names the flag if Windows nodes cannot have the second card, or cannot use the adapter.
func (c Config) checkCards() error {
	if c.WindowsNIC == "" {
		return nil
	}
	if c.network().secondCard {
		return fmt.Errorf("--windows-nic: in the mode %s nodes have a second network card already", c.Network)
	}
	ranges, err := c.ranges()
	if err != nil {
		return err
	}
	card, _, err := c.card(Node{Windows: true, Address: address(21)})
	if err == nil {
		err = lab.CheckCards([]lab.Card{card})
	}
	if err != nil {
		return err
	}
	for _, pods := range ranges.pods {
		if pods.Overlaps(card.Address) {
			return fmt.Errorf("--windows-nic %s overlaps with the range of the pods, %s", c.WindowsNIC, pods)
		}
	}
	return nil
}
