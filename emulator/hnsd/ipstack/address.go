package ipstack

import (
	"context"
	"errors"
	"net/netip"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// addresses is what a data plane has if programs may change the host's addresses.
type addresses interface {
	CreateAddress(link int, addr netip.Prefix) error
	DeleteAddress(link int, addr netip.Addr) error
}

// ChangeAddress answers wire.Address. The codes are those of CreateUnicastIpAddressEntry and
// DeleteUnicastIpAddressEntry.
func (s *Stack) ChangeAddress(ctx context.Context, q wire.Request) error {
	host, ok := s.plane.(addresses)
	if !ok {
		return hnsd.ErrNotSupported
	}
	addr, err := netip.ParsePrefix(q.Text[1])
	link, _ := wire.Link(q.Handle)
	if err != nil || link == 0 {
		return hnsd.ErrInvalidParameter.WithText("a unicast address needs an address and an interface: %q on %d",
			q.Text[1], link)
	}
	// From here on link is that of Linux.
	if link = s.linkOf(link); link == 0 {
		return hnsd.ErrElementNotFound.WithText("an address needs an interface with IP: there is none with that index")
	}
	// Whoever asks for the adapters next sees the change.
	defer s.seen.forget()
	switch q.Text[0] {
	case wire.VerbCreate:
		err = host.CreateAddress(link, addr)
	case wire.VerbDelete:
		err = host.DeleteAddress(link, addr.Addr())
	default:
		err = hnsd.ErrNotSupported
	}

	// The two codes are those that callers tell apart; everything else is an error of the emulation
	// and logged.
	switch {
	case errors.Is(err, hoststack.ErrAddressExists):
		return hnsd.ErrObjectAlreadyExists.WithText("%v", err)
	case errors.Is(err, hoststack.ErrNoAddress), errors.Is(err, hoststack.ErrNoInterface):
		return hnsd.ErrElementNotFound.WithText("%v", err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Changing an address of the host")
	}
	return err
}
