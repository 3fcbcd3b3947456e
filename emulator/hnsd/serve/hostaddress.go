package serve

import (
	"context"
	"errors"
	"net/netip"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane"
)

// opAddress creates or deletes a unicast address of the host: "create" with address and length, "delete" with the same
// (the length does not count), and the interface's index.
const opAddress = 104

// addresses is what a DataPlane has if programs may change the host's addresses.
type addresses interface {
	CreateAddress(link int, addr netip.Prefix) error
	DeleteAddress(link int, addr netip.Addr) error
}

// changeAddress answers opAddress. The codes are those of CreateUnicastIpAddressEntry and DeleteUnicastIpAddressEntry.
func (s *Service) changeAddress(ctx context.Context, q request) error {
	host, ok := s.plane.(addresses)
	if !ok {
		return errNotSupported
	}
	addr, err := netip.ParsePrefix(q.text[1])
	link := int(uint32(q.handle))
	if err != nil || link == 0 {
		return errInvalidParameter.WithText("a unicast address needs an address and an interface: %q on %d", q.text[1], link)
	}
	switch q.text[0] {
	case "create":
		err = host.CreateAddress(link, addr)
	case "delete":
		err = host.DeleteAddress(link, addr.Addr())
	default:
		err = errNotSupported
	}
	switch {
	case errors.Is(err, dataplane.ErrAddressExists):
		return errAlreadyExists.WithText("%v", err)
	case errors.Is(err, dataplane.ErrNoAddress), errors.Is(err, dataplane.ErrNoInterface):
		return errNotFound.WithText("%v", err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Changing an address of the host")
	}
	return err
}
