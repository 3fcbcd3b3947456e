package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// Card is a network card of a host beside its first, in a network that all cards of the same subnet share.
type Card struct {
	Address netip.Prefix `json:"address"`
	// Gateway is the next hop of its default route; the router has it. Zero: the card has no default route.
	Gateway netip.Addr `json:"gateway,omitzero"`
	// Metric is that of the default route, to which Windows adds the interface's. The route of the first card has 0.
	Metric int `json:"metric,omitempty"`
}

// maxCards is how many cards a host can have beside its first.
const maxCards = 7

// ParseCard reads ADDRESS/LENGTH[,gateway=ADDRESS[,metric=N]].
func ParseCard(text string) (c Card, err error) {
	fields := strings.Split(text, ",")
	if c.Address, err = netip.ParsePrefix(fields[0]); err != nil {
		return c, fmt.Errorf("%q is not an address with the length of its subnet, such as 10.98.0.5/24", fields[0])
	}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "gateway":
			c.Gateway, err = netip.ParseAddr(value)
		case "metric":
			c.Metric, err = strconv.Atoi(value)
		default:
			err = errors.New("known are gateway=ADDRESS and metric=N")
		}
		if err != nil {
			return c, fmt.Errorf("%q: %w", f, err)
		}
	}
	return c, nil
}

// CheckCards reports the first card that no host can have.
func CheckCards(cards []Card) error {
	if len(cards) > maxCards {
		return fmt.Errorf("%d network cards beside the first: at most %d", len(cards), maxCards)
	}

	taken := []netip.Prefix{Underlay, PodRange, ServiceIPs, netip.PrefixFrom(Outside, 24)}
	for _, c := range cards {
		net := c.Address.Masked()
		switch {
		case !c.Address.Addr().Is4() || net.Bits() < 8 || net.Bits() > 30 || net.Addr() == c.Address.Addr():
			return fmt.Errorf("network card %s: it must be an IPv4 address of a host in a subnet of /8 to /30",
				c.Address)
		case c.Gateway.IsValid() && (!net.Contains(c.Gateway) || c.Gateway == c.Address.Addr()):
			return fmt.Errorf("network card %s: its gateway %s must be another address in %s", c.Address, c.Gateway,
				net)
		case c.Metric < 0 || c.Metric > 9999 || c.Metric > 0 && !c.Gateway.IsValid():
			return fmt.Errorf("network card %s: metric %d must be 0 to 9999, and needs a gateway", c.Address, c.Metric)
		}
		for _, other := range taken {
			if net.Overlaps(other) {
				return fmt.Errorf(
					"network card %s: its subnet overlaps with %s, which the network between hosts has already",
					c.Address, other)
			}
		}
		taken = append(taken, net)
	}
	return nil
}

// EnsureCards gives a host that EnsureHost has made its other cards. It can be repeated.
func (l Lab) EnsureCards(host string, cards []Card) error {
	if len(cards) == 0 {
		return nil
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.checkFree(host, cards); err != nil {
		return err
	}
	for i, c := range cards {
		if err := l.ensureCard(host, i, c); err != nil {
			return fmt.Errorf("giving host %s network card %s: %w", host, c.Address, err)
		}
	}
	return nil
}

// checkFree reports an address of the cards that another host has.
func (l Lab) checkFree(host string, cards []Card) error {
	hosts, err := l.Hosts()
	if err != nil {
		return err
	}
	for _, other := range hosts {
		if other == host || !platform.NetnsExists(l.Netns(other)) {
			continue
		}
		err := platform.InNetns(platform.NetnsPath(l.Netns(other)), func() error {
			addrs, err := netlink.AddrList(nil, unix.AF_INET)
			for _, a := range addrs {
				if i := slices.IndexFunc(cards,
					func(c Card) bool { return c.Address.Addr().String() == a.IP.String() }); i >= 0 {
					return fmt.Errorf("address %s is in use by host %s", cards[i].Address.Addr(), other)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cardLink is the router's end of card i of a host.
func cardLink(host string, i int) string { return "nic" + sum(fmt.Sprintf("%s/%d", host, i)) }

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:5])
}

func (l Lab) ensureCard(host string, i int, c Card) error {
	link := cardLink(host, i)
	inner := fmt.Sprintf("eth%d", i+1)
	bridge := "sw" + sum(c.Address.Masked().String())
	err := platform.InNetns(platform.NetnsPath(l.RouterNetns()), func() error {
		if err := platform.CreateBridge(bridge); err != nil {
			return err
		}
		if c.Gateway.IsValid() {
			if err := platform.SetAddress(bridge, netip.PrefixFrom(c.Gateway, c.Address.Bits())); err != nil {
				return err
			}
		}

		there, err := platform.LinkExists(link)
		if err == nil && !there {
			err = platform.CreateVeth(link, inner, platform.NetnsPath(l.Netns(host)))
		}
		if err != nil {
			return err
		}
		return errors.Join(platform.JoinBridge(link, bridge), platform.LinkUp(bridge), platform.LinkUp(link))
	})
	if err != nil {
		return err
	}

	return platform.InNetns(platform.NetnsPath(l.Netns(host)), func() error {
		if err := errors.Join(platform.LinkUp(inner), platform.SetAddress(inner, c.Address)); err != nil ||
			!c.Gateway.IsValid() {
			return err
		}
		return addDefault(c)
	})
}

// addDefault gives the host another default route. Of two with one metric Windows prefers neither by the order in
// which they came; the newer one is taken here.
func addDefault(c Card) error {
	any4 := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	err := netlink.RouteAddEcmp(&netlink.Route{Dst: platform.IPNet(any4), Gw: c.Gateway.AsSlice(), Priority: c.Metric})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("default route via %s: %w", c.Gateway, err)
	}
	return nil
}

// removeCards removes the links of a host's cards from the router, in whose namespace it must be called.
func (l Lab) removeCards(host string) (err error) {
	for i := range maxCards {
		err = errors.Join(err, platform.DeleteLink(cardLink(host, i)))
	}
	return err
}
