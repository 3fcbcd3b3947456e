package balance

// Len returns how many endpoints and load balancers are known.
func (x *Index) Len() (endpoints, balancers int) { return len(x.endpoints), len(x.balancers) }

// Own returns the load balancers that this proxy, or an earlier run of it, made.
func (x *Index) Own() (ids []GUID) {
	for id := range x.balancers {
		if ownsBalancer(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// HasEndpointBut reports whether an endpoint is known for which skip is false.
func (x *Index) HasEndpointBut(skip func(GUID) bool) bool { return hasBut(x.endpoints, skip) }

// HasBalancerBut reports whether a load balancer is known for which skip is false.
func (x *Index) HasBalancerBut(skip func(GUID) bool) bool { return hasBut(x.balancers, skip) }

func hasBut[T any](objects map[GUID]T, skip func(GUID) bool) bool {
	for id := range objects {
		if !skip(id) {
			return true
		}
	}
	return false
}

// MatchEndpoints drops the endpoints that are not listed, except those that keep reports. It returns the listed ids
// that are not known, and how many of ours were dropped.
func (x *Index) MatchEndpoints(listed []GUID, keep func(GUID) bool) (unknown []GUID, lost int) {
	walk := x.nextWalk()
	for _, id := range listed {
		if e := x.endpoints[id]; e != nil {
			e.walk = walk
		} else {
			unknown = append(unknown, id)
		}
	}

	for id, e := range x.endpoints {
		if e.walk == walk || keep(id) {
			continue
		}
		if e.ours {
			lost++
		}
		x.DropEndpoint(id)
	}
	return unknown, lost
}

// MatchBalancers drops the load balancers that are not listed, except those that keep reports. It returns the listed
// ids that are not known, and what was dropped.
func (x *Index) MatchBalancers(listed []GUID, keep func(GUID) bool) (unknown []GUID, lost []*Balancer) {
	walk := x.nextWalk()
	for _, id := range listed {
		if b := x.balancers[id]; b != nil {
			b.walk = walk
		} else {
			unknown = append(unknown, id)
		}
	}

	for id, b := range x.balancers {
		if b.walk == walk || keep(id) {
			continue
		}
		lost = append(lost, b)
		x.DropBalancer(id)
	}
	return unknown, lost
}
