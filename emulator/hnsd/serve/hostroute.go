package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd"
)

// The host's own IP stack is no part of HNS, but programs of the host reach it by the same way.
const (
	opRoute  = 101
	opEvents = 102
)

// stack is what a DataPlane has if programs may change the host's routes.
type stack interface {
	CreateRoute(dataplane.HostRoute) error
	SetRoute(dataplane.HostRoute) error
	DeleteRoute(dataplane.HostRoute) error
	Watch(ctx context.Context, kind string) (<-chan dataplane.HostEvent, error)
}

// win32 makes an HRESULT of a Windows error code.
func win32(code uint32) *hnsd.Error { return &hnsd.Error{Code: 0x80070000 | code} }

// Codes of the IP helper functions.
var (
	errNotSupported     = win32(50)   // ERROR_NOT_SUPPORTED
	errInvalidParameter = win32(87)   // ERROR_INVALID_PARAMETER
	errNotFound         = win32(1168) // ERROR_NOT_FOUND
	errAlreadyExists    = win32(5010) // ERROR_OBJECT_ALREADY_EXISTS
)

// changeRoute answers opRoute.
func (s *Service) changeRoute(ctx context.Context, q request) error {
	host, ok := s.plane.(stack)
	if !ok {
		return errNotSupported
	}
	r, err := hostRouteOf(q)
	if err != nil {
		return err
	}
	switch q.text[0] {
	case "create":
		err = host.CreateRoute(r)
	case "set":
		err = host.SetRoute(r)
	case "delete":
		err = host.DeleteRoute(r)
	default:
		err = errNotSupported
	}
	switch {
	case errors.Is(err, dataplane.ErrRouteExists):
		return errAlreadyExists.WithText("%v", err)
	case errors.Is(err, dataplane.ErrNoRoute):
		return errNotFound.WithText("%v", err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Changing a route of the host")
	}
	return err
}

func hostRouteOf(q request) (r dataplane.HostRoute, err error) {
	r = dataplane.HostRoute{Link: int(uint32(q.handle)), Metric: uint32(q.handle >> 32)}
	if r.Metric == 0xffffffff {
		r.Metric = 0 // as InitializeIpForwardEntry leaves it: the system chooses
	}
	prefix, err := netip.ParsePrefix(q.text[1])
	if err == nil {
		r.NextHop, err = netip.ParseAddr(q.text[2])
	}
	if err != nil || prefix != prefix.Masked() || r.NextHop.Is4() != prefix.Addr().Is4() || r.Link == 0 {
		return r, errInvalidParameter.WithText("a route needs a destination, a next hop of its family and an interface: %q via %q on %d",
			q.text[1], q.text[2], r.Link)
	}
	r.Prefix = prefix
	return r, nil
}

// streamEvents answers opEvents until either side ends it: one answer that the subscription stands, then one for each
// change.
func (s *Service) streamEvents(ctx context.Context, conn net.Conn, q request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host, ok := s.plane.(stack)
	if !ok {
		conn.Write(failure(errNotSupported).frame())
		return
	}
	events, err := host.Watch(ctx, q.text[0])
	if err != nil {
		klog.FromContext(ctx).Error(err, "Watching the host's network")
		conn.Write(failure(err).frame())
		return
	}
	go func() {
		defer cancel()
		io.Copy(io.Discard, conn)
	}()
	if _, err := conn.Write(answer{}.frame()); err != nil {
		return
	}
	for e := range events {
		if _, err := conn.Write(eventAnswer(e).frame()); err != nil {
			return
		}
	}
}

func eventAnswer(e dataplane.HostEvent) answer {
	a := answer{result: uint32(e.Type), handle: uint64(e.Metric)<<32 | uint64(uint32(e.Link))}
	if e.Prefix.IsValid() {
		text := e.Prefix.String()
		a.text[0] = &text
	}
	if e.NextHop.IsValid() {
		text := fmt.Sprint(e.NextHop)
		a.text[1] = &text
	}
	return a
}
