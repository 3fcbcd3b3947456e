package hnsd

import "strings"

// KindNames are the names by which Is knows objects.
func KindNames() []string {
	return append(append([]string{}, kindNames[:]...), "LocalEndpoint", "RemoteEndpoint")
}

// Is reports whether the object is of that kind, in any case: one of KindNames.
func (o *Object) Is(kind string) bool {
	switch {
	case strings.EqualFold(kind, "LocalEndpoint"):
		return o.Kind == Endpoint && !o.endpoint.remote
	case strings.EqualFold(kind, "RemoteEndpoint"):
		return o.Kind == Endpoint && o.endpoint.remote
	}
	return strings.EqualFold(kind, o.Kind.String())
}

// HostDefault reports whether it is the host's own compartment, which is always there.
func (o *Object) HostDefault() bool { return o.Kind == Namespace && o.namespace.kind == "HostDefault" }

// Transient reports whether it is a network that a reboot removes, with its endpoints (hcsshim
// hcn.EnableNonPersistent).
func (o *Object) Transient() bool { return o.Kind == Network && o.network.transient }

// DetachAll takes every endpoint out of its namespace, and counts them.
// They are detached in a copy; s stays as it is.
func DetachAll(s *State) (next *State, n int, err error) {
	next = s.clone()
	for _, e := range s.List(Endpoint) {
		if e.endpoint.attached() {
			if err := detach(next, e.endpoint.namespace, e.ID); err != nil {
				return nil, 0, err
			}
			n++
		}
	}
	return next, n, nil
}

// Lose forgets every chosen object, whatever refers to it, and counts them: endpoints go with their network, attached
// or not; load balancers keep naming backends that are gone. With renew a network comes back empty under a new id.
func (h *Host) Lose(s *State, chosen func(*Object) bool, renew bool) (*State, int, error) {
	next, n := s, 0

	// Who refers to others goes first.
	for _, k := range []Kind{LoadBalancer, Route, Endpoint, Network, Namespace} {
		for _, o := range s.List(k) {
			if o.HostDefault() || !chosen(o) {
				continue
			}
			if k == Network {
				for _, e := range next.endpointsHaving(networkOf, o.ID) {
					var err error
					if next, err = h.Delete(next, Endpoint, e.ID); err != nil {
						return nil, 0, err
					}
				}
			}
			var err error
			if next, err = h.Delete(next, k, o.ID); err != nil {
				return nil, 0, err
			}
			n++
			// Its document is the old one but for the ids, with the next order of creation.
			if k == Network && renew {
				again := o.edit()
				again.ID = h.NewID()
				again.Doc.set("ID", again.ID)
				next = next.clone()
				next.put(again)
			}
		}
	}
	return next, n, nil
}
