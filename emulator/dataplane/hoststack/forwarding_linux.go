package hoststack

import (
	"fmt"

	"github.com/google/nftables"
)

// Interface returns the settings of one interface of the host for a family. The error is ErrNoInterface if there is
// none.
func (s *Stack) Interface(index int, six bool) (Interface, error) {
	link, err := s.link(index)
	if err != nil {
		return Interface{}, fmt.Errorf("reading interface %d: %w", index, err)
	}
	have := Interface{MTU: link.Attrs().MTU}
	err = s.settings(func(c *nftables.Conn) error {
		have.Forwarding, err = inSet(c, forwardingSet(six), index)
		return err
	})
	return have, err
}

// SetForwarding sets whether packets in transit that come in by an interface of the host are forwarded. On a new
// interface they are not.
func (s *Stack) SetForwarding(index int, six, on bool) error {
	if _, err := s.link(index); err != nil {
		return fmt.Errorf("setting interface %d: %w", index, err)
	}
	err := s.settings(func(c *nftables.Conn) error { return setMember(c, forwardingSet(six), index, on) })
	if err == nil {
		s.changed.Send(index)
	}
	return err
}

// ForgetForwarding switches forwarding off for all interfaces, and returns how often it was on, each family for itself.
func (s *Stack) ForgetForwarding() (n int, err error) {
	err = s.settings(func(c *nftables.Conn) error {
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

// MarkSwitched lets packets pass a bridge whose network is an overlay.
func (s *Stack) MarkSwitched(index int) error {
	return s.settings(func(c *nftables.Conn) error { return setMember(c, switched, index, true) })
}

func forwardingSet(six bool) string {
	if six {
		return forwarding6
	}
	return forwarding4
}
