package ipstack

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// interfaces is implemented by a data plane that has settings of the host's interfaces.
// six asks for IPv6, whose settings are apart from those of IPv4.
type interfaces interface {
	Interface(index int, six bool) (hoststack.Interface, error)
	SetForwarding(index int, six, on bool) error
	ForgetForwarding() (n int, err error)
}

// ForgetForwarding makes no interface forward packets any more, and counts those that did. false: there are none.
func (s *Stack) ForgetForwarding() (n int, ok bool, err error) {
	host, ok := s.plane.(interfaces)
	if !ok {
		return 0, false, nil
	}
	n, err = host.ForgetForwarding()
	return n, true, err
}

// Interface answers wire.Interface. The codes are those of GetIpInterfaceEntry and SetIpInterfaceEntry.
func (s *Stack) Interface(ctx context.Context, q wire.Request) (a wire.Answer, err error) {
	host, ok := s.plane.(interfaces)
	if !ok {
		return a, hnsd.ErrNotSupported
	}
	index, flags := wire.Link(q.Handle)
	six := q.Text[1] == wire.FamilyIPv6
	if index == 0 || !six && q.Text[1] != wire.FamilyIPv4 {
		return a, hnsd.ErrInvalidParameter.WithText("settings of an interface need its index and a family: %d, %q",
			index, q.Text[1])
	}

	// From here on index is that of the link.
	if index = s.linkOf(index); index == 0 {
		return a, hnsd.ErrElementNotFound.WithText("there is no interface with IP and that index")
	}
	switch q.Text[0] {
	case wire.VerbGet:
		var have hoststack.Interface
		have, err = host.Interface(index, six)
		flags = 0
		if have.Forwarding {
			flags |= wire.FlagForwarding
		}
		// The answer has the MTU in the place of the link.
		a.Handle = wire.LinkHandle(have.MTU, flags)
	case wire.VerbSet:
		err = host.SetForwarding(index, six, flags&wire.FlagForwarding != 0)
		if err == nil {
			klog.FromContext(ctx).V(2).
				Info("IP interface of the host", "index", index, "family", q.Text[1], "flags", flags)
		}
	default:
		err = hnsd.ErrNotSupported
	}

	switch {
	case errors.Is(err, hoststack.ErrNoInterface):
		return a, hnsd.ErrElementNotFound.WithText("%v", err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Settings of an interface of the host")
	}
	return a, err
}
