package userspace

import (
	"context"
	"errors"
	"net/netip"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

// walk applies a plan. A failed operation does not stop the others, but a listener is not tried if its address could
// not be added.
type walk struct {
	host  host
	relay *relay.Relay
	owned *owned

	failed map[service.Key]service.Problem
	addrs  map[netip.Addr]service.Problem // addresses that could not be added
	errs   []error                        // failures that concern no frontend
	writes int
}

// apply carries out the operations in order. Addresses are written to the state file before they are added, so that a
// proxy that is killed in between removes them when it starts again; without the file, no address is added.
func (w *walk) apply(ctx context.Context, ops []Op) {
	logger := klog.FromContext(ctx)
	noted := w.note(ops)
	for _, op := range ops {
		if op.Verb == Add && noted != nil {
			w.addrs[op.Addr] = service.Problem{Reason: ReasonAddressNotAdded, Text: noted.Error()}
			continue
		}
		logger.V(4).Info("Applying", "operation", op.String())
		w.writes++
		w.one(op)
	}
	if err := w.owned.save(); err != nil {
		w.errs = append(w.errs, err)
	}
}

// note saves which addresses are about to be added. If it fails, none may be added.
func (w *walk) note(ops []Op) error {
	before := map[netip.Addr]string{}
	for _, op := range ops {
		if op.Verb == Add {
			before[op.Addr] = w.owned.addrs[op.Addr]
			w.owned.add(op.Addr, op.Interface)
		}
	}
	err := w.owned.save()
	if err == nil {
		return nil
	}

	for addr, iface := range before {
		if iface == "" {
			w.owned.remove(addr)
		} else {
			w.owned.add(addr, iface)
		}
	}
	return err
}

// one carries out one operation and notes its failure where it belongs: at the frontend, at the address, or in errs.
func (w *walk) one(op Op) {
	switch op.Verb {
	case Close:
		w.relay.Unlisten(op.At)
	case Drop:
		w.relay.Drop(op.Name)
	case Serve:
		w.relay.Set(op.Name, op.Config)
	case Add:
		if err := w.host.Add(op.Interface, op.Addr); err != nil {
			// The address stays ours: a failed call may have added it.
			w.addrs[op.Addr] = service.Problem{Reason: ReasonAddressNotAdded, Text: err.Error()}
		}
	case Remove:
		if err := w.host.Remove(op.Interface, op.Addr); err != nil {
			w.errs = append(w.errs, err)
		} else if w.owned.addrs[op.Addr] == op.Interface {
			w.owned.remove(op.Addr)
		}
	case Forget:
		w.owned.remove(op.Addr)
	case Listen:
		w.listen(op)
	}
}

func (w *walk) listen(op Op) {
	if f, failed := w.addrs[op.At.Addr()]; failed {
		w.failed[op.Key] = f
		return
	}
	err := w.relay.Listen(op.Name, op.At)
	switch {
	case err == nil:
	case errors.Is(err, relay.ErrPortTaken):
		w.failed[op.Key] = service.Problem{Reason: ReasonPortInUse, Text: err.Error()}
	default:
		w.failed[op.Key] = service.Problem{Reason: ReasonListenFailed, Text: err.Error()}
	}
}
