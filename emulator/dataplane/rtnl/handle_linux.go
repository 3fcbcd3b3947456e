package rtnl

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// Handle is open sockets of netlink that belong to one network namespace. Its methods may be called from several
// goroutines.
type Handle struct {
	*netlink.Handle
	Netns string // path of the namespace; "" means the caller's own
}

// Open opens sockets of these families in the namespace at path; "" means the caller's own.
func Open(path string, families ...int) (*Handle, error) {
	h := &Handle{Netns: path}
	err := h.Within(func() (err error) {
		h.Handle, err = netlink.NewHandle(families...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Within runs f in the namespace.
func (h *Handle) Within(f func() error) error { return platform.InNetns(h.Netns, f) }

// Named returns nil if there is no link of that name.
func (h *Handle) Named(name string) (netlink.Link, error) {
	link, err := h.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	return link, err
}

// Remove deletes a link. One that is gone already is success.
func (h *Handle) Remove(name string) error {
	link, err := h.Named(name)
	if err != nil || link == nil {
		return err
	}
	if err := h.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

// UnlessGone is success where the kernel says that what is to be deleted is not there.
func UnlessGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
