package serve

import (
	"context"
	"encoding/json"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// carryOut carries out a call. An operation that is not known is an error that programs see, not one of the daemon.
func (s *Service) carryOut(ctx context.Context, c call) wire.Answer {
	var a wire.Answer
	var err error
	switch {
	case c.Op == wire.HNSCall:
		a, err = s.callV1(ctx, c.v1)
	case c.Op == wire.Route:
		err = s.stack.ChangeRoute(ctx, c.Request)
	case c.Op == wire.Address:
		err = s.stack.ChangeAddress(ctx, c.Request)
	case c.Op == wire.Interface:
		a, err = s.stack.Interface(ctx, c.Request)
	case c.Op == wire.Firewall:
		err = s.walls.set(ctx, c.Request)
	case c.hcn:
		a, err = s.callHCN(ctx, c)
	default:
		err = hnsd.ErrNotImplemented
	}
	return answerOf(a, err)
}

// callHCN answers a call on an object. A handle counts at this moment: a restart of the service while the call was
// under way has ended it.
func (s *Service) callHCN(ctx context.Context, c call) (a wire.Answer, err error) {
	// Open and Close take the handle or the id as it comes.
	switch c.function {
	case wire.Modify, wire.Query:
		if c.id, err = s.handles.ID(c.Handle, c.kind, c.process); err != nil {
			return a, err
		}
	}

	switch c.function {
	case wire.Enumerate:
		ids, err := s.host.Enumerate(s.objects.State(), c.kind, c.Text[0])
		if err != nil {
			return a, err
		}
		data, err := json.Marshal(ids)
		return withText(string(data)), err
	case wire.Create:
		return s.create(ctx, c)
	case wire.Open:
		if err := s.host.Open(s.objects.State(), c.kind, c.id); err != nil {
			return a, err
		}
		a.Handle = s.handles.Open(c.kind, c.id, c.process)
		return a, nil
	case wire.Modify:
		return a, s.objects.Change(ctx, func(state *hnsd.State) (*hnsd.State, error) {
			return s.host.Modify(state, c.kind, c.id, c.settings)
		})
	case wire.Query:
		text, err := s.host.Query(s.objects.State(), c.kind, c.id, c.Text[0])
		return withText(text), err
	case wire.Delete:
		return a, s.objects.Change(ctx, func(state *hnsd.State) (*hnsd.State, error) {
			return s.host.Delete(state, c.kind, c.id)
		})
	}
	// What is left is Close.
	return a, s.handles.Close(c.Handle, c.kind, c.process)
}

// create makes an object, and gives its caller a handle of it. A new namespace is bound, in the same change, to the
// Linux network namespace that was announced for its id, so that no reader sees it without.
func (s *Service) create(ctx context.Context, c call) (a wire.Answer, err error) {
	if c.kind == hnsd.Endpoint {
		if c.parent, err = s.handles.ID(c.Handle, hnsd.Network, c.process); err != nil {
			return a, err
		}
	}
	id := ""
	err = s.objects.Change(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
		next, id, err = s.host.Create(state, c.kind, c.parent, c.GUID, c.settings)
		if err == nil && c.kind == hnsd.Namespace {
			if path := s.guests.path(id); path != "" {
				next = next.Bind(id, path)
			}
		}
		return next, err
	})
	if err != nil {
		return a, err
	}
	if c.kind == hnsd.Namespace {
		s.guests.made(id)
	}
	a.Handle = s.handles.Open(c.kind, id, c.process)
	return a, nil
}

// callV1 answers a call of the older interface.
func (s *Service) callV1(ctx context.Context, q hnsd.V1) (wire.Answer, error) {
	var text string
	var err error
	// Reads go by the current state without a lock; everything else is a change, even if it turns
	// out to be none.
	if q.Method == "GET" {
		_, text, err = s.host.HNSCall(s.objects.State(), q)
	} else {
		err = s.objects.Change(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
			next, text, err = s.host.HNSCall(state, q)
			return next, err
		})
	}
	return withText(text), err
}
