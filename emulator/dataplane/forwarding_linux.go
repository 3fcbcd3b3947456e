package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
)

// The table of the host's own IP stack, beside those of HNS. It holds which interfaces forward packets, by index: a
// setting belongs to its interface and is gone with it, as on Windows.
const (
	stackTable  = "hnsstack"
	forwarding4 = "forward4"
	forwarding6 = "forward6"
	switched    = "switched" // bridges of overlays: HNS itself carries what passes them
)

// stackRules drops every packet in transit that came in by an interface without forwarding. What stays on one switch
// is not forwarded: pods of one host reach each other.
const stackRules = `add table inet ` + stackTable + `
add set inet ` + stackTable + ` ` + forwarding4 + ` { type iface_index; }
add set inet ` + stackTable + ` ` + forwarding6 + ` { type iface_index; }
add set inet ` + stackTable + ` ` + switched + ` { type iface_index; }
add chain inet ` + stackTable + ` forward { type filter hook forward priority -10; policy accept; }
add rule inet ` + stackTable + ` forward iifname "hnsb*" oifname "hnsb*" accept
add rule inet ` + stackTable + ` forward iifname "hnsx*" accept
add rule inet ` + stackTable + ` forward oifname "hnsx*" accept
add rule inet ` + stackTable + ` forward iif @` + switched + ` accept
add rule inet ` + stackTable + ` forward oif @` + switched + ` accept
add rule inet ` + stackTable + ` forward meta nfproto ipv4 iif @` + forwarding4 + ` accept
add rule inet ` + stackTable + ` forward meta nfproto ipv6 iif @` + forwarding6 + ` accept
add rule inet ` + stackTable + ` forward drop
`

// IPStack has the settings of the host's own IP stack that programs can change, except for routes and addresses.
type IPStack struct {
	netns  string // path; "" means the caller's own
	handle *netlink.Handle

	changed wakeup.Topic[int] // indexes of interfaces whose settings were set

	mu   sync.Mutex
	away *CardStack // what a network card lacks during a takeover; nil: none does; under mu
}

// Interface returns the settings of one interface of the host for a family. The error is ErrNoInterface if there is
// none.
func (s *IPStack) Interface(index int, six bool) (Interface, error) {
	link, err := s.link(index)
	if err != nil {
		return Interface{}, fmt.Errorf("reading interface %d: %w", index, err)
	}
	have := Interface{MTU: link.Attrs().MTU}
	err = s.stack(func(c *nftables.Conn) error {
		have.Forwarding, err = inSet(c, forwardingSet(six), index)
		return err
	})
	return have, err
}

// SetForwarding sets whether packets in transit that come in by an interface of the host are forwarded. On a new
// interface they are not.
func (s *IPStack) SetForwarding(index int, six, on bool) error {
	if _, err := s.link(index); err != nil {
		return fmt.Errorf("setting interface %d: %w", index, err)
	}
	err := s.stack(func(c *nftables.Conn) error { return setMember(c, forwardingSet(six), index, on) })
	if err == nil {
		s.changed.Send(index)
	}
	return err
}

// ForgetForwarding switches forwarding off for all interfaces, and returns how often it was on, each family for itself.
func (s *IPStack) ForgetForwarding() (n int, err error) {
	err = s.stack(func(c *nftables.Conn) error {
		for _, set := range []string{forwarding4, forwarding6} {
			elems, err := c.GetSetElements(stackSet(set))
			if err != nil {
				return err
			}
			n += len(elems)
			c.FlushSet(stackSet(set))
		}
		return c.Flush()
	})
	return n, err
}

// markSwitched lets packets pass a bridge whose network is an overlay.
func (s *IPStack) markSwitched(index int) error {
	return s.stack(func(c *nftables.Conn) error { return setMember(c, switched, index, true) })
}

func (s *IPStack) link(index int) (netlink.Link, error) {
	link, err := s.handle.LinkByIndex(index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, ErrNoInterface
	}
	return link, err
}

// prepareStack makes the table unless it is there. If the tables cannot be listed it makes none: its rules would be
// there twice.
func (d *DataPlane) prepareStack() error {
	ctx := context.Background()
	var tables bytes.Buffer
	if err := d.nft(ctx, nil, &tables, "list", "tables", "inet"); err != nil {
		return err
	}
	if strings.Contains(tables.String(), "table inet "+stackTable+"\n") {
		return nil
	}

	return d.nft(ctx, strings.NewReader(stackRules), nil, "-f", "-")
}

func forwardingSet(six bool) string {
	if six {
		return forwarding6
	}
	return forwarding4
}

// stack runs f with nftables of the host's namespace.
func (s *IPStack) stack(f func(*nftables.Conn) error) error {
	return platform.InNetns(s.netns, func() error {
		c, err := nftables.New()
		if err != nil {
			return fmt.Errorf("opening nftables: %w", err)
		}
		if err := f(c); err != nil {
			return fmt.Errorf("settings of the host's interfaces: %w", err)
		}
		return nil
	})
}

func stackSet(name string) *nftables.Set {
	return &nftables.Set{Name: name, KeyType: nftables.TypeIFIndex,
		Table: &nftables.Table{Name: stackTable, Family: nftables.TableFamilyINet}}
}

func inSet(c *nftables.Conn, set string, index int) (bool, error) {
	elems, err := c.GetSetElements(stackSet(set))
	return slices.ContainsFunc(elems, func(e nftables.SetElement) bool {
		return len(e.Key) == 4 && binaryutil.NativeEndian.Uint32(e.Key) == uint32(index)
	}), err
}

// setMember adds an interface to a set or removes it. It does nothing if the set is so already.
func setMember(c *nftables.Conn, set string, index int, in bool) error {
	is, err := inSet(c, set, index)
	if err != nil || is == in {
		return err
	}
	elems := []nftables.SetElement{{Key: binaryutil.NativeEndian.PutUint32(uint32(index))}}
	if in {
		err = c.SetAddElements(stackSet(set), elems)
	} else {
		err = c.SetDeleteElements(stackSet(set), elems)
	}
	if err != nil {
		return err
	}
	return c.Flush()
}
