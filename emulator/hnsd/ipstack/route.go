package ipstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// stack is what a data plane has if programs may change the host's routes.
type stack interface {
	CreateRoute(hoststack.Route) error
	SetRoute(hoststack.Route) error
	DeleteRoute(hoststack.Route) error
	Watch(ctx context.Context, kind string) (<-chan hoststack.Event, error)
}

// ChangeRoute answers wire.Route. The host's own IP stack is not part of HNS, but programs of the host reach it by the
// same protocol.
func (s *Stack) ChangeRoute(ctx context.Context, q wire.Request) error {
	host, ok := s.plane.(stack)
	if !ok {
		return hnsd.ErrNotSupported
	}
	r, err := hostRouteOf(q)
	if err != nil {
		return err
	}
	// From here on the link is that of Linux.
	if r.Link = s.linkOf(r.Link); r.Link == 0 {
		return hnsd.ErrElementNotFound.WithText("a route needs an interface with IP: there is none with that index")
	}
	switch q.Text[0] {
	case wire.VerbCreate:
		err = host.CreateRoute(r)
	case wire.VerbSet:
		err = host.SetRoute(r)
	case wire.VerbDelete:
		err = host.DeleteRoute(r)
	default:
		err = hnsd.ErrNotSupported
	}

	switch {
	case errors.Is(err, hoststack.ErrRouteExists):
		return hnsd.ErrObjectAlreadyExists.WithText("%v", err)
	case errors.Is(err, hoststack.ErrNoRoute):
		return hnsd.ErrElementNotFound.WithText("%v", err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Changing a route of the host")
	}
	return err
}

// hostRouteOf returns the route that a call of the IP helper library describes. A prefix with bits behind its length
// is refused.
func hostRouteOf(q wire.Request) (r hoststack.Route, err error) {
	r.Link, r.Metric = wire.Link(q.Handle)
	if r.Metric == 0xffffffff {
		r.Metric = 0 // as InitializeIpForwardEntry leaves it: the system chooses
	}
	prefix, err := netip.ParsePrefix(q.Text[1])
	if err == nil {
		r.NextHop, err = netip.ParseAddr(q.Text[2])
	}
	if err != nil || prefix != prefix.Masked() || r.NextHop.Is4() != prefix.Addr().Is4() || r.Link == 0 {
		return r, hnsd.ErrInvalidParameter.WithText(
			"a route needs a destination, a next hop of its family and an interface: %q via %q on %d",
			q.Text[1], q.Text[2], r.Link)
	}
	r.Prefix = prefix
	return r, nil
}

// StreamEvents answers wire.Events until either side ends it: one answer that the subscription stands, then one for
// each change. An error has not been answered yet.
func (s *Stack) StreamEvents(ctx context.Context, conn net.Conn, kind string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host, ok := s.plane.(stack)
	if !ok {
		return hnsd.ErrNotSupported
	}
	events, err := host.Watch(ctx, kind)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Watching the host's network")
		return err
	}

	// Two sources tell of changes: the kernel, and HNS when adapters take the place of others.
	moved, stop := s.shown.Subscribe()
	defer stop()
	// Programs send nothing on this connection: what can be read is its end.
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, conn) // it ends with the connection
	}()

	if _, err := conn.Write(wire.Answer{}.Frame()); err != nil {
		return nil
	}
	for {
		// shown is false for an event that is not told: of another kind, or of a link that is no
		// adapter.
		var e hoststack.Event
		shown, more := true, true
		select {
		case e, more = <-events:
			if more {
				e, shown = s.shownAs(kind, e)
			}
		case m := <-moved:
			e, shown = m.Event, m.kind == kind
		}
		if !more {
			return nil
		}
		if !shown {
			continue
		}
		if _, err := conn.Write(eventAnswer(e).Frame()); err != nil {
			return nil
		}
	}
}

// eventAnswer has the type of the event as its result, and nothing for what the event does not
// have.
func eventAnswer(e hoststack.Event) wire.Answer {
	a := wire.Answer{Result: uint32(e.Type), Handle: wire.LinkHandle(e.Link, e.Metric)}
	if e.Prefix.IsValid() {
		text := e.Prefix.String()
		a.Text[0] = &text
	}
	if e.NextHop.IsValid() {
		text := fmt.Sprint(e.NextHop)
		a.Text[1] = &text
	}
	return a
}
