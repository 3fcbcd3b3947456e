package hoststack

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/emulator/dataplane/nft"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/internal/wakeup"
)

// Stack is the IP stack of one host. Its methods may be called from several goroutines.
type Stack struct {
	h       *rtnl.Handle
	changed wakeup.Topic[int] // indexes of interfaces whose settings were set

	mu   sync.Mutex
	away *Card // what a network card lacks during a takeover; nil: none does; under mu
}

// New prepares the IP stack of the host that h is open in: no interface forwards packets until it is told to
// (SetForwarding). The caller closes h when it is done with the stack.
func New(h *rtnl.Handle, program nft.Program) (*Stack, error) {
	if err := prepare(program); err != nil {
		return nil, fmt.Errorf("preparing the host's IP stack: %w", err)
	}
	return &Stack{h: h}, nil
}

func (s *Stack) link(index int) (netlink.Link, error) {
	link, err := s.h.LinkByIndex(index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, ErrNoInterface
	}
	return link, err
}

// settings runs f with nftables of the host's namespace.
func (s *Stack) settings(f func(*nftables.Conn) error) error {
	return nft.Within(s.h.Netns, func(c *nftables.Conn) error {
		if err := f(c); err != nil {
			return fmt.Errorf("settings of the host's interfaces: %w", err)
		}
		return nil
	})
}
